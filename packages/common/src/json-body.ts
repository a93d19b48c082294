import { Problem } from './problems.js';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads a JSON body strictly (RFC 8259): bytes that are not UTF-8 are an error here, where decoding would replace them
 * silently and store something else than was sent.
 *
 * @throws Problem `invalid_json`
 */
export function readJson(bytes: Buffer): unknown {
	try {
		return JSON.parse(utf8.decode(bytes));
	} catch {
		throw new Problem('invalid_json');
	}
}
