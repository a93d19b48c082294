import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { Negotiator } from '@fastify/accept-negotiator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { matchesEntityTag } from '../http/entity-tag.js';

const negotiator = new Negotiator({ supportedValues: ['br', 'gzip', 'identity'] });

const compressors = {
	br: (bytes: Buffer) => promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
	gzip: (bytes: Buffer) => promisify(gzip)(bytes),
	identity: async (bytes: Buffer) => bytes,
};

type Encoding = keyof typeof compressors;

/**
 * A handler that sends these bytes, the same for everybody. Browsers cache and revalidate them. Each encoding is created
 * once, at its first request.
 *
 * @param headers of the response, with its content type
 */
export function staticFile(bytes: Buffer, headers: Record<string, string>) {
	const digest = createHash('sha256').update(bytes).digest('base64url').slice(0, 27);
	const made = new Map<Encoding, Promise<Buffer>>();

	return async function sendFile(request: FastifyRequest, reply: FastifyReply) {
		const wanted = negotiator.negotiate(request.headers['accept-encoding'] ?? 'identity') as Encoding | null;
		const encoding = wanted ?? 'identity';
		const entityTag = encoding === 'identity' ? `"${digest}"` : `"${digest}-${encoding}"`;
		reply.headers({ ...headers, 'cache-control': 'public, no-cache', vary: 'Accept-Encoding', etag: entityTag });
		if (matchesEntityTag(request.headers['if-none-match'], entityTag)) return reply.code(304).send();
		const body = made.get(encoding) ?? compressors[encoding](bytes);
		made.set(encoding, body);
		if (encoding !== 'identity') reply.header('content-encoding', encoding);
		return reply.send(await body);
	};
}
