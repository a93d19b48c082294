import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import swagger from '@fastify/swagger';
import fp from 'fastify-plugin';
import { Marked } from 'marked';
import { gfmHeadingId } from 'marked-gfm-heading-id';
import { documentOptions, type ReferenceInfo } from './document.js';
import { staticFile } from './static-file.js';

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

export interface ApiReferenceOptions {
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

	async function addPage(name: string, urls: string[], parts: Record<string, string>) {
		let html = await readFile(page(name), 'utf8');
		for (const [place, part] of Object.entries(parts)) html = html.replaceAll(place, () => part);
		const sendPage = staticFile(Buffer.from(html), {
			'content-type': 'text/html; charset=utf-8',
			'content-security-policy': pagePolicy,
		});
		for (const url of urls) server.get(url, sendPage);
	}
	const { title } = reference;
	const guideLink = guide === undefined ? '' : '<a href="/docs/guide">Guide</a>';
	await addPage('index.html', ['/docs', '/docs/'], { TITLE: title, GUIDE_LINK: guideLink });
	if (guide !== undefined) {
		const text = await new Marked(gfmHeadingId()).parse(await readFile(guide, 'utf8'));
		await addPage('guide.html', ['/docs/guide'], { TITLE: title, GUIDE: text });
	}
	for (const [name, type, source] of files) {
		server.get(`/docs/${name}`, staticFile(await readFile(source), { 'content-type': type }));
	}
});
