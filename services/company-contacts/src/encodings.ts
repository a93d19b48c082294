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
import { Negotiator } from '@fastify/accept-negotiator';

export type Encoding = 'identity' | 'gzip' | 'br';

const gzipOptions: ZlibOptions = { level: 6 };
/** The default quality, 11, takes seconds for a megabyte and gains little. */
const brotliOptions: BrotliOptions = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };

/** Brotli first: of the same text it makes half of what gzip makes. */
const negotiator = new Negotiator({ supportedValues: ['br', 'gzip', 'identity'] });

/** The encoding that a client likes best, by its Accept-Encoding header (RFC 9110, section 12.5.3). */
export function chooseEncoding(acceptEncoding = 'identity'): Encoding {
	return (negotiator.negotiate(acceptEncoding) as Encoding | null) ?? 'identity';
}

export const compress = {
	gzip: (bytes: Buffer) => promisify(gzip)(bytes, gzipOptions),
	br: (bytes: Buffer) => promisify(brotliCompress)(bytes, brotliOptions),
};

export const createCompressor = {
	gzip: () => createGzip(gzipOptions),
	br: () => createBrotliCompress(brotliOptions),
};

/** The strong entity tag of a representation (RFC 9110, section 8.8.3): each encoding has one of its own. */
export function entityTagOf(digest: string, encoding: Encoding): string {
	return encoding === 'identity' ? `"${digest}"` : `"${digest}-${encoding}"`;
}
