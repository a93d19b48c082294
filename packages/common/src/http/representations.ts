import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import {
	type BrotliOptions,
	brotliCompress,
	constants,
	createBrotliCompress,
	createGzip,
	gzip,
	type ZlibOptions,
} from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';

export type Encoding = 'identity' | 'gzip' | 'br';

/** A response body in one encoding. */
export interface Representation<Body = string | Buffer> {
	encoding: Encoding;
	body: Body;
	/** Strong (RFC 9110, section 8.8.3): each encoding has its own tag. */
	entityTag: string;
}

/** A response body in each requested encoding. Each is created once and shared by all requests. */
export interface Representations {
	/** Returns it at once if it exists; otherwise compresses it first. */
	get(encoding: Encoding): Representation | Promise<Representation>;
	/** The same bytes have the same digest. */
	readonly digest: string;
	/** What all representations so far take in memory, in bytes, at most. */
	readonly size: number;
}

const gzipOptions: ZlibOptions = { level: 6 };
/** The default quality of 11 takes seconds for a megabyte and saves little. */
const brotliOptions: BrotliOptions = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };

const compress = {
	gzip: (bytes: Buffer) => promisify(gzip)(bytes, gzipOptions),
	br: (bytes: Buffer) => promisify(brotliCompress)(bytes, brotliOptions),
};

export const createCompressor = {
	gzip: () => createGzip(gzipOptions),
	br: () => createBrotliCompress(brotliOptions),
};

/** A smaller body fits into one packet, so compression saves nothing. */
const minCompressedBytes = 1200;

/** A text and its headers are one write, which costs a microsecond less than a buffer. To encode a longer text costs more. */
const maxTextBytes = 512;

/**
 * Returns the encoding that a client prefers by its Accept-Encoding header (RFC 9110, section 12.5.3). Of equal ones Brotli
 * comes first: its output is half the size of gzip's for the same text.
 */
export function negotiateEncoding({ headers: { 'accept-encoding': accepted = '' } }: FastifyRequest): Encoding {
	if (accepted === '') return 'identity';
	const weights = new Map<string, number>();
	for (const coding of accepted.toLowerCase().split(',')) {
		const [name = '', weight] = coding.split(/;[ \t]*q=/);
		weights.set(name.trim(), weight === undefined ? 1 : Number.parseFloat(weight) || 0);
	}
	const other = weights.get('*') ?? 0;
	const [br, gzip, identity] = [weights.get('br') ?? other, weights.get('gzip') ?? other, weights.get('identity') ?? 0];
	if (br >= Math.max(gzip, identity) && br > 0) return 'br';
	return gzip >= identity && gzip > 0 ? 'gzip' : 'identity';
}

export function entityTagOf(digest: string, encoding: Encoding): string {
	return encoding === 'identity' ? `"${digest}"` : `"${digest}-${encoding}"`;
}

/** What a representation takes in memory besides its bytes, rounded up. */
const overheadBytes = 700;

/** @param onGrow called when another representation was created */
export function createRepresentations(body: Buffer, onGrow: () => void = () => undefined): Representations {
	const digest = createHash('sha256').update(body).digest('base64url').slice(0, 27);
	const bytes = withoutSpareBytes(body);
	const identity: Representation = {
		encoding: 'identity',
		body: body.length > maxTextBytes ? bytes : body.toString(),
		entityTag: entityTagOf(digest, 'identity'),
	};
	// The functions below keep it in memory: not for a short text, of which there may be many.
	const compressible = body.length < minCompressedBytes ? undefined : bytes;
	const made: { [Name in Encoding]?: Representation | Promise<Representation> } = {};
	let size = body.length + overheadBytes;

	async function make(encoding: Exclude<Encoding, 'identity'>, source: Buffer): Promise<Representation> {
		const compressed = withoutSpareBytes(await compress[encoding](source));
		const representation = { encoding, body: compressed, entityTag: entityTagOf(digest, encoding) };
		made[encoding] = representation;
		size += compressed.length + overheadBytes;
		onGrow();
		return representation;
	}

	return {
		digest,
		get(encoding) {
			if (encoding === 'identity' || compressible === undefined) return identity;
			made[encoding] ??= make(encoding, compressible);
			return made[encoding];
		},
		get size() {
			return size;
		},
	};
}

/**
 * Returns the same bytes in memory of exactly their size. A buffer of zlib or of a socket is often a small part of a larger block,
 * which it keeps in memory.
 */
function withoutSpareBytes(bytes: Buffer): Buffer {
	if (bytes.length > bytes.buffer.byteLength * 0.9) return bytes;
	const copy = Buffer.allocUnsafeSlow(bytes.length);
	bytes.copy(copy);
	return copy;
}

/**
 * Sends a representation, or a 304 to a client that already has it (RFC 9110, section 13.2.2).
 */
export function sendRepresentation(
	request: FastifyRequest,
	reply: FastifyReply,
	{ encoding, entityTag, body }: Representation<string | Buffer | Readable>,
): void {
	reply.headers({ 'cache-control': 'private, no-cache', vary: 'Accept-Encoding', etag: entityTag });
	if (isNotModified(request, entityTag)) {
		if (body instanceof Readable) body.destroy();
		reply.code(304).send();
		return;
	}
	if (encoding !== 'identity') reply.header('content-encoding', encoding);
	reply.type('application/json; charset=utf-8').send(body);
}

/**
 * Whether a client already has the representation, so that a 304 is the response: its If-None-Match header is a list of tags,
 * weak ones too, or `*` (RFC 9110, section 13.1.2).
 */
export function isNotModified({ headers }: FastifyRequest, entityTag: string): boolean {
	const tags = headers['if-none-match'];
	if (tags === undefined) return false;
	return tags.trim() === '*' || (tags.match(/"[^"]*"/g)?.includes(entityTag) ?? false);
}
