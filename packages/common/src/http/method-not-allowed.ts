import fp from 'fastify-plugin';
import { Problem } from './problems.js';

/**
 * Answers what has no route, before body, credentials and limits: 405 with `Allow` where the path is known with another
 * method, 404 elsewhere. Register it before any route, and on the root.
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

/** The path as the router reads it: of an absolute URL too, without the query, decoded but for an escaped slash and the like. */
function pathOf(url: string): string {
	const path = url.replace(/^https?:\/\/[^/?#]*/i, '').split(/[?#]/, 1)[0] ?? '';
	try {
		return decodeURI(path);
	} catch {
		return path;
	}
}
