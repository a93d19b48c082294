import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import swagger from '@fastify/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { Marked } from 'marked';
import { gfmHeadingId } from 'marked-gfm-heading-id';
import { createRepresentations, matchesEntityTag, negotiateEncoding } from '../http/representations.js';
import { documentOptions, type ReferenceInfo } from './document.js';

const page = (name: string) => new URL(`../../api-reference/${name}`, import.meta.url);
const swaggerUi = (name: string) => createRequire(import.meta.url).resolve(`swagger-ui-dist/${name}`);

/**
 * The files below /docs/, each under its own path. Only the files of swagger-ui-dist that the page needs are served. The
 * others are a demo, source maps and a standalone layout that can load any document from anywhere.
 */
const files: [name: string, type: string, source: string | URL][] = [
	['swagger-ui-bundle.js', 'text/javascript; charset=utf-8', swaggerUi('swagger-ui-bundle.js')],
	['swagger-ui.css', 'text/css; charset=utf-8', swaggerUi('swagger-ui.css')],
	['page.js', 'text/javascript; charset=utf-8', page('page.js')],
	['theme.css', 'text/css; charset=utf-8', page('theme.css')],
	['page.css', 'text/css; charset=utf-8', page('page.css')],
	['guide.js', 'text/javascript; charset=utf-8', page('guide.js')],
	['icon.svg', 'image/svg+xml', page('icon.svg')],
];

/** The page can load from and connect to its own service only. Swagger UI has small images in its style sheet. */
const pagePolicy = [
	"default-src 'none'",
	"script-src 'self'",
	"style-src 'self'",
	"img-src 'self' data:",
	"connect-src 'self'",
	"base-uri 'none'",
	"form-action 'none'",
	"frame-ancestors 'none'",
].join('; ');

const swaggerUiResources = `
		<link rel="stylesheet" href="/docs/swagger-ui.css">
		<link rel="stylesheet" href="/docs/theme.css">
		<script src="/docs/swagger-ui-bundle.js" defer></script>
		<script src="/docs/page.js" type="module"></script>`;

const swaggerUiContent = `
		<div id="reference"></div>
		<noscript><p class="notice">This page needs JavaScript. The document it shows is <a href="/openapi.json">/openapi.json</a>.</p></noscript>`;

interface ApiReferenceOptions {
	reference: ReferenceInfo;
	/** A guide for callers, in Markdown; without it, `GET /docs/guide` does not exist. */
	guide?: URL;
}

/**
 * `GET /openapi.json` and, for people, `GET /docs` and `GET /docs/guide`: an OpenAPI 3.1 document of all routes with a
 * `reference`, Swagger UI to read and try it, and the guide. They need no credentials. Register it on the root, before
 * those routes.
 */
export const apiReference = fp<ApiReferenceOptions>(async (server, { reference, guide }) => {
	await server.register(swagger, documentOptions(reference));

	let sendDocument: ReturnType<typeof staticFile> | undefined;
	server.get('/openapi.json', (request, reply) => {
		// Created at the first request, when all routes are registered.
		sendDocument ??= staticFile(Buffer.from(JSON.stringify(server.swagger())), {
			'content-type': 'application/json; charset=utf-8',
		});
		return sendDocument(request, reply);
	});

	const frame = (await readFile(page('page.html'), 'utf8')).replaceAll('TITLE', reference.title);
	function addPage(urls: string[], resources: string, links: string, content: string) {
		const html = frame
			.replace('RESOURCES', resources)
			.replace('LINKS', links)
			.replace('CONTENT', () => content);
		const sendPage = staticFile(Buffer.from(html), {
			'content-type': 'text/html; charset=utf-8',
			'content-security-policy': pagePolicy,
		});
		for (const url of urls) server.get(url, sendPage);
	}
	const guideLink = guide === undefined ? '' : '<a href="/docs/guide">Guide</a>';
	addPage(['/docs', '/docs/'], swaggerUiResources, `<a href="#try">Try it</a>${guideLink}`, swaggerUiContent);
	if (guide !== undefined) {
		const text = await new Marked(gfmHeadingId()).parse(await readFile(guide, 'utf8'));
		const script = '<script src="/docs/guide.js" defer></script>';
		addPage(['/docs/guide'], script, '<a href="/docs">API reference</a>', `<main class="guide">${text}</main>`);
	}
	for (const [name, type, source] of files) {
		server.get(`/docs/${name}`, staticFile(await readFile(source), { 'content-type': type }));
	}
});

/**
 * A handler that sends these bytes, the same for everybody. Browsers cache and revalidate them. Each encoding is created
 * once, at its first request.
 *
 * @param headers of the response, with its content type
 */
function staticFile(bytes: Buffer, headers: Record<string, string>) {
	const representations = createRepresentations(bytes);
	return async function sendFile(request: FastifyRequest, reply: FastifyReply) {
		const { encoding, entityTag, body } = await representations.get(negotiateEncoding(request));
		reply.headers({ ...headers, 'cache-control': 'public, no-cache', vary: 'Accept-Encoding', etag: entityTag });
		if (matchesEntityTag(request.headers['if-none-match'], entityTag)) return reply.code(304).send();
		if (encoding !== 'identity') reply.header('content-encoding', encoding);
		return reply.send(body);
	};
}
