import { createHash } from 'node:crypto';
import { compress, type Encoding, entityTagOf } from './encodings.js';

/** Bytes as they are sent. */
export interface Variant {
	encoding: Encoding;
	body: Buffer;
	entityTag: string;
}

/** A list, made once for however many ask for it. */
export interface PreparedAnswer {
	/** The variant in an encoding, which is made when it is asked for the first time. */
	variant(encoding: Encoding): Promise<Variant>;
	/** The same for two lists with the same bytes. */
	readonly digest: string;
	/** Bytes that all variants made so far take. */
	readonly size: number;
}

/** Below so many bytes compressing gains nothing: the answer is one packet anyway. */
const smallest = 1200;

/** @param onGrow called when another encoding was made */
export function prepareAnswer(body: Buffer, onGrow: () => void): PreparedAnswer {
	const digest = createHash('sha256').update(body).digest('base64url').slice(0, 27);
	const identity: Variant = { encoding: 'identity', body, entityTag: entityTagOf(digest, 'identity') };
	const variants = new Map<Encoding, Promise<Variant>>([['identity', Promise.resolve(identity)]]);
	let size = body.length;

	async function make(encoding: Exclude<Encoding, 'identity'>): Promise<Variant> {
		const compressed = await compress[encoding](body);
		size += compressed.length;
		onGrow();
		return { encoding, body: compressed, entityTag: entityTagOf(digest, encoding) };
	}

	return {
		digest,
		variant(encoding) {
			const wanted = body.length < smallest ? 'identity' : encoding;
			const made = variants.get(wanted) ?? make(wanted as Exclude<Encoding, 'identity'>);
			variants.set(wanted, made);
			return made;
		},
		get size() {
			return size;
		},
	};
}
