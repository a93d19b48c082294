import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { service } from './app.js';

let app: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'first', 'first-key');
	await database.sql`
		insert into company_contacts (bitrix_id, name, company_ids)
		select n, 'Contact ' || n, array[1 + n % 50] from generate_series(1, 2000) n`;
	app = await startTestApp(service, database.url);
});
afterAll(() => app?.close());

describe('encodings', () => {
	const decoders: Record<string, (bytes: Buffer) => Buffer> = {
		identity: (bytes) => bytes,
		gzip: gunzipSync,
		br: brotliDecompressSync,
	};

	/** The raw bytes: fetch would decode them. */
	async function raw(accept: string, rest = '') {
		const response = await app.raw(
			`GET /api/company_contacts.list?project=first&api_key=first-key${rest} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${accept === '' ? '' : `Accept-Encoding: ${accept}\r\n`}\r\n`,
		);
		const at = response.indexOf('\r\n\r\n');
		const header = (name: string) => new RegExp(`\r\n${name}: ([^\r]*)`, 'i').exec(response.slice(0, at))?.[1];
		return { header, body: Buffer.from(response.slice(at + 4), 'latin1') };
	}

	test.each([
		['', 'identity'],
		['identity', 'identity'],
		['gzip', 'gzip'],
		['br', 'br'],
		['br;q=0, gzip', 'gzip'],
		['br;q=0, *', 'gzip'],
		['*, gzip;q=0, br;q=0.000', 'identity'],
		['*;q=0.5, identity', 'identity'],
		['gzip;q=0.5 , *;q=0', 'gzip'],
		['*', 'br'],
		['GZIP', 'gzip'],
		['gzip ; Q=0.9, br; q=0.1', 'gzip'],
		['deflate, gzip, br, zstd', 'br'],
		['identity;q=1, br;q=1', 'br'],
		['identity;q=0', 'identity'],
		[' ', 'identity'],
		['gzip;q=0.5, br;q=1', 'br'],
		['zstd', 'identity'],
	])('Accept-Encoding: %s selects %s', async (accept, encoding) => {
		const { header, body } = await raw(accept);
		expect(header('content-encoding') ?? 'identity').toBe(encoding);
		expect(header('vary')).toBe('Accept-Encoding');
		expect(Number(header('content-length'))).toBe(body.length);
		expect(JSON.parse(String(decoders[encoding]?.(body))).count).toBe(2000);
	});

	test('each encoding has its own entity tag and its own 304', async () => {
		const tags = await Promise.all(
			['identity', 'gzip', 'br'].map(async (accept) => String((await raw(accept)).header('etag'))),
		);
		expect(new Set(tags).size).toBe(3);
		for (const [index, accept] of ['identity', 'gzip', 'br'].entries()) {
			const response = await app.fetch('/api/company_contacts.list?project=first&api_key=first-key', {
				headers: { 'accept-encoding': accept, 'if-none-match': String(tags[index]) },
			});
			expect([response.status, response.headers.get('etag'), response.headers.get('vary')]).toEqual([
				304,
				tags[index],
				'Accept-Encoding',
			]);
		}
	});

	test('a list of a few bytes is not compressed', async () => {
		expect((await raw('br', '&company_id=999')).header('content-encoding')).toBe(undefined);
	});
});
