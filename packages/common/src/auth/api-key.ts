import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

const prefix = 'cck_';
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Maximum length of a key, in characters. It has to fit into a URL with the other parameters. */
export const maxKeyLength = 512;

/**
 * A new key: `cck_`, 32 random bytes in base 62, and the CRC-32 of that in base 62, 6 characters. The prefix lets scanners
 * find a key that was published by mistake, and the checksum distinguishes a key from a similar word.
 */
export function generateKey(): string {
	const secret = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43);
	return `${prefix}${secret}${base62(BigInt(crc32(secret)), 6)}`;
}

/**
 * The stored form of a key: its SHA-256. A slow password hash protects guessable secrets. A key of 256 random bits does not
 * need one, and every request computes this hash.
 */
export function hashKey(key: string): Buffer {
	return hash('sha256', key, 'buffer');
}

function base62(value: bigint, length: number): string {
	let text = '';
	for (let rest = value; text.length < length; rest /= 62n) text = alphabet[Number(rest % 62n)] + text;
	return text;
}
