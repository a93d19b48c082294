import fp from 'fastify-plugin';
import { Problem } from './problems.js';

/**
 * Responds to requests without a route, before body, credentials and limits are checked. It returns 405 with `Allow` if the
 * path exists with another method, and 404 otherwise. Register it on the root, before any route.
 */
export const methodNotAllowed = fp(async (server) => {
	const methods = new Map<string, Set<string>>();

	server.addHook('onRoute', ({ url, method }) => {
		const known = methods.get(url) ?? new Set();
		for (const each of [method].flat()) known.add(each);
		methods.set(url, known);
	});

	server.addHook('onRequest', (request, _reply, done) => {
		if (!request.is404) return done();
		const allowed = methods.get(pathOf(request.url));
		if (allowed === undefined) throw new Problem('not_found');
		throw new Problem('method_not_allowed', { headers: { allow: [...allowed].sort().join(', ') } });
	});
});

/**
 * The path as the router reads it, also of an absolute URL: without the query, and decoded except for an escaped slash and
 * the like.
 */
function pathOf(url: string): string {
	const path = url.replace(/^https?:\/\/[^/?#]*/i, '').split(/[?#]/, 1)[0] ?? '';
	try {
		return decodeURI(path);
	} catch {
		return path;
	}
}
