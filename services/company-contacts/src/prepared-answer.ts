import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { CompanyContactRow } from './company-contacts.sql.js';

export type Encoding = 'identity' | 'gzip' | 'br';

/** Bytes as they are sent, with their strong entity tag (RFC 9110, section 8.8.3): each encoding has one of its own. */
export interface Variant {
	encoding: Encoding;
	body: Buffer;
	entityTag: string;
}

/** A list, made once for however many ask for it. */
export interface PreparedAnswer {
	/** The variant in an encoding, which is made when it is asked for the first time. */
	variant(encoding: Encoding): Promise<Variant>;
	/** Bytes that all variants made so far take. */
	readonly size: number;
}

/** Below so many bytes compressing gains nothing: the answer is one packet anyway. */
const smallest = 1200;

const compressors: Record<Exclude<Encoding, 'identity'>, (body: Buffer) => Promise<Buffer>> = {
	gzip: (body) => promisify(gzip)(body, { level: 6 }),
	// The default quality, 11, takes seconds for a megabyte and gains little.
	br: (body) =>
		promisify(brotliCompress)(body, {
			params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_SIZE_HINT]: body.length },
		}),
};

/** @param onGrow called when another encoding was made */
export function prepareAnswer(
	contacts: readonly CompanyContactRow[],
	onGrow: () => void = () => undefined,
): PreparedAnswer {
	const body = Buffer.from(JSON.stringify({ count: contacts.length, data: contacts }));
	const digest = createHash('sha256').update(body).digest('base64url').slice(0, 27);
	const identity: Variant = { encoding: 'identity', body, entityTag: `"${digest}"` };
	const variants = new Map<Encoding, Promise<Variant>>([['identity', Promise.resolve(identity)]]);
	let size = body.length;

	async function compress(encoding: Exclude<Encoding, 'identity'>): Promise<Variant> {
		const compressed = await compressors[encoding](body);
		size += compressed.length;
		onGrow();
		return { encoding, body: compressed, entityTag: `"${digest}-${encoding}"` };
	}

	return {
		variant(encoding) {
			const wanted = body.length < smallest ? 'identity' : encoding;
			const made = variants.get(wanted) ?? compress(wanted as Exclude<Encoding, 'identity'>);
			variants.set(wanted, made);
			return made;
		},
		get size() {
			return size;
		},
	};
}

/** Whether an If-None-Match header names this tag: a list of tags, weak ones too, or `*` (RFC 9110, section 13.1.2). */
export function matchesEntityTag(ifNoneMatch: string | undefined, entityTag: string): boolean {
	if (ifNoneMatch === undefined) return false;
	return ifNoneMatch.trim() === '*' || (ifNoneMatch.match(/"[^"]*"/g)?.includes(entityTag) ?? false);
}
