import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

const prefix = 'cck_';
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** The longest key that is taken, in characters: it has to fit into a URL beside the rest. */
export const maxKeyLength = 512;

/**
 * A new key: `cck_`, 32 random bytes in base 62, and the CRC-32 of that in base 62, 6 characters. The prefix lets scanners
 * find a key that was published by mistake, the checksum lets them tell a key from a word that looks like one.
 */
export function generateKey(): string {
	const secret = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43);
	return `${prefix}${secret}${checksum(secret)}`;
}

/** Whether this has the form of a generated key and its checksum is right. Imported keys may have any form. */
export function isGeneratedKey(key: string): boolean {
	const secret = key.slice(prefix.length, -6);
	return key.startsWith(prefix) && secret.length === 43 && key.endsWith(checksum(secret));
}

/**
 * What is stored of a key: its SHA-256. A slow password hash would protect guessable secrets; a key of 256 random bits
 * needs none, and every request pays for this.
 */
export function hashKey(key: string): Buffer {
	return hash('sha256', key, 'buffer');
}

function checksum(secret: string): string {
	return base62(BigInt(crc32(secret)), 6);
}

function base62(value: bigint, length: number): string {
	let text = '';
	for (let rest = value; text.length < length; rest /= 62n) text = alphabet[Number(rest % 62n)] + text;
	return text;
}
