import { crc32 } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { generateKey, hashKey, maxKeyLength } from './api-key.js';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** The number of a string in base 62. */
const numberOf = (text: string) =>
	[...text].reduce((value, digit) => value * 62n + BigInt(alphabet.indexOf(digit)), 0n);

describe('a generated key', () => {
	test('has the prefix, 43 digits of secret and 6 of checksum', () => {
		for (let tries = 0; tries < 1000; tries++) expect(generateKey()).toMatch(/^cck_[0-9A-Za-z]{49}$/);
		expect(generateKey().length).toBeLessThan(maxKeyLength);
	});

	test('carries 256 random bits: the secret is below 2^256, and every bit is set in some keys and not in others', () => {
		const secrets = Array.from({ length: 200 }, () => numberOf(generateKey().slice(4, 47)));
		for (const secret of secrets) expect(secret < 2n ** 256n).toBe(true);
		for (let bit = 0n; bit < 256n; bit++) {
			const set = secrets.filter((secret) => (secret >> bit) & 1n).length;
			// 200 fair coins show fewer than 40 heads, or tails, once in 10^16 times.
			expect(set).toBeGreaterThan(40);
			expect(set).toBeLessThan(160);
		}
	});

	test('ends in the CRC-32 of its secret', () => {
		const key = generateKey();
		expect(numberOf(key.slice(-6))).toBe(BigInt(crc32(key.slice(4, 47))));
	});
});

test('hashKey is the SHA-256 of a key in UTF-8', () => {
	// The two bytes c3 a9.
	const hash = '4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c';
	expect(hashKey('é').toString('hex')).toBe(hash);
});
