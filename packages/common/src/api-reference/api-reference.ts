import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { brotliCompressSync, constants, gunzipSync, gzipSync } from 'node:zlib';
import swagger from '@fastify/swagger';
import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import fp from 'fastify-plugin';
import { Marked } from 'marked';
import { type Encoding, entityTagOf, isNotModified, negotiateEncoding } from '../http/representations.js';
import { documentOptions, type ReferenceInfo } from './document.js';
import { limitUnreadResponses } from './unread-responses.js';

const page = (name: string) => readFile(new URL(`../../api-reference/${name}`, import.meta.url));
/** Written by the build, see tools/build.mjs. */
const built = (name: string) => readFile(new URL(`../../dist/api-reference/${name}`, import.meta.url));

/**
 * The page can load from and connect to its own service only. Scalar inserts style elements, and has small images and fonts in
 * its styles.
 */
const pagePolicy = [
	"default-src 'none'",
	"script-src 'self'",
	"style-src 'self' 'unsafe-inline'",
	"img-src 'self' data:",
	"font-src 'self' data:",
	"connect-src 'self'",
	"base-uri 'none'",
	"form-action 'none'",
	"frame-ancestors 'none'",
].join('; ');

interface ApiReferenceOptions {
	reference: ReferenceInfo;
	/** A monotonic clock in milliseconds. */
	clock: () => number;
}

/**
 * `GET /openapi.json` and, for people, `GET /docs`: an OpenAPI 3.1 document of all routes with an operation ID, and a page to
 * read it and to send requests. They need no credentials. Register it on the root, before those routes.
 */
export const apiReference = fp<ApiReferenceOptions>(async (server, { reference, clock }) => {
	await server.register(swagger, documentOptions(reference));

	// HEAD too: monitors of uptime send nothing else.
	const serve = (url: string, handler: RouteHandlerMethod) =>
		void server.route({ method: ['GET', 'HEAD'], url, handler });

	// Of all routes, which are registered when it is requested.
	const document = () => compress(JSON.stringify(server.swagger()));
	serve('/openapi.json', staticFile('application/json; charset=utf-8', document));

	const template = (await page('page.html')).toString().replaceAll('TITLE', reference.title);
	const html = () => compress(template.replace('GUIDE', () => guideHtml(reference.description)));
	const sendPage = staticFile('text/html; charset=utf-8', html, { 'content-security-policy': pagePolicy });
	for (const url of ['/docs', '/docs/']) serve(url, sendPage);
	serve('/', (_request, reply) => reply.redirect('/docs'));

	const script = 'text/javascript; charset=utf-8';
	const [br, gzip] = await Promise.all([built('scalar.js.br'), built('scalar.js.gz')]);
	const admit = limitUnreadResponses(server.server, clock);
	serve(
		'/docs/scalar.js',
		staticFile(script, () => ({ br, gzip, identity: gunzipSync(gzip) }), {}, admit),
	);
	const files = {
		'start.js': script,
		'style.css': 'text/css; charset=utf-8',
		'scalar.LICENSE': 'text/plain; charset=utf-8',
		'icon.svg': 'image/svg+xml',
	};
	for (const [name, type] of Object.entries(files)) {
		const content = await page(name);
		serve(
			`/docs/${name}`,
			staticFile(type, () => compress(content)),
		);
	}
});

/**
 * The guide as HTML: over a slow line Scalar, a megabyte, arrives seconds later. A heading has the ID that Scalar and GitHub give it, so
 * links to it work before.
 */
function guideHtml(text: string): string {
	const marked = new Marked({
		renderer: {
			heading({ tokens, depth, text: heading }) {
				const id = heading
					.toLowerCase()
					.replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
					.replaceAll(' ', '-');
				return `<h${depth} id="${id}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
			},
		},
	});
	return marked.parse(text, { async: false });
}

function compress(content: string | Buffer): Record<Encoding, Buffer> {
	return {
		br: brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
		gzip: gzipSync(content),
		identity: Buffer.from(content),
	};
}

/**
 * A handler that sends a file, the same to everybody. Browsers cache and revalidate it. It is made at the first request: that
 * of the page takes longer than a start should. All responses share its buffers: anybody can request a file, and read it slowly.
 */
function staticFile(
	type: string,
	make: () => Record<Encoding, Buffer>,
	headers: Record<string, string> = {},
	admit?: ReturnType<typeof limitUnreadResponses>,
) {
	let made: { bodies: Record<Encoding, Buffer>; digest: string } | undefined;
	function file() {
		if (made !== undefined) return made;
		const bodies = make();
		made = { bodies, digest: createHash('sha256').update(bodies.identity).digest('base64url').slice(0, 27) };
		return made;
	}
	return function sendFile(request: FastifyRequest, reply: FastifyReply) {
		const { bodies, digest } = file();
		const encoding = negotiateEncoding(request);
		const entityTag = entityTagOf(digest, encoding);
		reply.headers({ ...headers, 'cache-control': 'public, no-cache', vary: 'Accept-Encoding', etag: entityTag });
		if (isNotModified(request, entityTag)) return reply.code(304).send();
		admit?.(request.raw.socket, bodies[encoding].length);
		if (encoding !== 'identity') reply.header('content-encoding', encoding);
		return reply.type(type).send(bodies[encoding]);
	};
}
