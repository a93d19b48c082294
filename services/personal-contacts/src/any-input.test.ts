import { isUtf8 } from 'node:buffer';
import { describeAnyInput, goodCredentials, holds, one } from '@contacts/testing/any-input.js';
import { anyText, withFaults } from '@contacts/testing/any-request.js';
import { codeOf, type RawAnswer } from '@contacts/testing/raw-http.js';
import { database, test } from '@contacts/testing/test.js';
import fc from 'fast-check';
import { expect } from 'vitest';
import { service } from './app.js';

const path = '/api/personal_contacts';
const max = Number.MAX_SAFE_INTEGER;

describeAnyInput(service, { method: 'POST', path, body: '{"chat_id": 1}' }, (input) => {
	const post = async (body: Buffer): Promise<RawAnswer> => {
		const head = `POST ${path}?${goodCredentials.join('&')} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`;
		const rest = `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
		return one(await input.send(Buffer.concat([Buffer.from(head + rest), body])));
	};
	/** All stored data of a chat, as text. */
	const stored = async (chatId: number) => {
		const rows = await database.sql`
			select chat_id::text, username, name, birth_date::text from personal_contacts where chat_id = ${chatId}::bigint`;
		return rows[0];
	};

	const characters = (unit: 'grapheme' | 'binary') => fc.string({ unit, maxLength: 255, size: 'max' });
	const storable = fc.oneof(characters('grapheme'), characters('binary'), anyText).filter(isStorable);
	const day = fc
		.date({ min: new Date('0001-01-01T00:00:00Z'), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true })
		.map((date) => date.toISOString().slice(0, 10));
	const chatId = fc.maxSafeInteger().filter((id) => id !== 0);

	test('every saved field is stored as it was sent', async () => {
		const contacts = fc.record({
			chat_id: chatId,
			username: fc.option(storable),
			name: fc.option(storable),
			birth_date: fc.option(day),
		});
		const check = async (contact: { chat_id: number; [field: string]: string | number | null }) => {
			const response = await post(Buffer.from(JSON.stringify(contact)));
			expect([response.status, response.body.toString()]).toEqual([200, '{"ok":"saved"}']);
			expect(await stored(contact.chat_id)).toEqual({ ...contact, chat_id: String(contact.chat_id) });
		};
		// The same chat twice among these requests would be a race of the test with itself.
		const several = fc.uniqueArray(contacts, {
			selector: (contact) => contact.chat_id,
			minLength: 1,
			maxLength: 16,
			size: 'max',
		});
		await fc.assert(
			fc.asyncProperty(several, async (all) => {
				await Promise.all(all.map(check));
			}),
			{ numRuns: 60 },
		);
	});

	test('a contact is saved exactly when all fields are valid; otherwise each invalid field is named', async () => {
		const value = fc.oneof(
			...[storable, day, anyText, chatId, fc.double(), fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n })],
			fc.constantFrom(0, max, -max, max + 1, true, [], {}, '1990-02-30', 'x'.repeat(256)),
			fc.jsonValue({ maxDepth: 3 }),
		);
		const names = ['chat_id', 'chat_id', 'username', 'name', 'birth_date', '__proto__', 'constructor', 'x'];
		const bodies = fc
			.array(fc.tuple(fc.constantFrom(...names), value), { maxLength: 6 })
			.map((fields) => `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${toJson(field)}`).join(',')}}`);
		const ids = ['null', '""', '0', '-0', '"12"', '1.5', 'true', '[1]', `${max + 1}`, `${-max}`];
		const dates = ['2023-02-29', '2024-02-29', '1990-13-01', '1990-1-1', '1990-01-01T00:00:00Z', 'infinity', ''];
		const others = ['"user_name":"x"', '"Name":"x"', '"":1', '"username":0', '"name":"a\\u0000"', '"name":"\\ud800"'];
		const named = [
			...ids.map((id) => `{"chat_id":${id}}`),
			...dates.map((date) => `{"chat_id":1,"birth_date":"${date}"}`),
			...others.map((field) => `{"chat_id":1,${field}}`),
			// Characters count, not code units or bytes.
			...[255, 256].map((length) => JSON.stringify({ chat_id: 1, name: '\u{10FFFF}'.repeat(length) })),
		];
		const check = async (text: string) => {
			const response = await post(Buffer.from(text));
			// If a field appears twice, the later one counts.
			const body = new Map(Object.entries(JSON.parse(text) as object));
			const wrong = wrongFields(body);
			// An unknown field is only reported as unknown, without its name.
			if ([...body.keys()].some((name) => !knownFields.includes(name))) wrong.push('body');
			if (wrong.length === 0) expect(response.body.toString()).toBe('{"ok":"saved"}');
			else {
				expect([response.status, codeOf(response)]).toEqual([400, 'invalid_body']);
				const { errors } = JSON.parse(response.body.toString()) as { errors: { field: string }[] };
				expect(new Set(errors.map(({ field }) => field))).toEqual(new Set(wrong));
			}
		};
		await holds(bodies, check, 60, named);
	});

	test('a chat_id must be an integer as written, not only after rounding', async () => {
		const digits = (maxLength: number) => fc.array(fc.nat({ max: 9 }), { maxLength }).map((array) => array.join(''));
		const whole = fc.oneof(
			fc.bigInt({ min: 2n ** 53n - 3n, max: 2n ** 53n + 3n }).map(String),
			digits(25).map((text) => text.replace(/^0+/, '') || '0'),
		);
		const fraction = fc.oneof(fc.constantFrom('', '0', '9'.repeat(20), `${'0'.repeat(20)}1`), digits(22));
		const exponent = fc.option(fc.tuple(fc.constantFrom('e', 'E', 'e+', 'E-'), fc.nat({ max: 30 })), {
			nil: undefined,
		});
		const check = async ([sign, int, frac, exp]: [string, string, string, [string, number] | undefined]) => {
			const power = exp === undefined ? 0 : Number(`${exp[0].slice(1)}${exp[1]}`);
			const written = `${sign}${int}${frac === '' ? '' : `.${frac}`}${exp === undefined ? '' : exp.join('')}`;
			// As a fraction of two integers, without rounding.
			const places = frac.length - power;
			const numerator = BigInt(int + frac) * 10n ** BigInt(Math.max(-places, 0));
			const denominator = 10n ** BigInt(Math.max(places, 0));
			const id = (numerator / denominator) * (sign === '-' ? -1n : 1n);
			const exact = numerator % denominator === 0n && id !== 0n && id >= -BigInt(max) && id <= BigInt(max);
			const response = await post(Buffer.from(`{"name":"1.5e3 \\"0.1","chat_id":${written}}`));
			if (exact) {
				expect([written, response.status]).toEqual([written, 200]);
				const rows = await database.sql`select 1 from personal_contacts where chat_id = ${String(id)}::text::bigint`;
				expect(rows).toHaveLength(1);
			} else {
				expect([written, response.status, codeOf(response)]).toEqual([written, 400, 'invalid_body']);
				expect(JSON.parse(response.body.toString()).errors).toMatchObject([{ field: 'chat_id' }]);
			}
		};
		await holds(fc.tuple(fc.constantFrom('', '-'), whole, fraction, exponent), check, 60, [
			['', '0', '9'.repeat(20), undefined],
			['', '1', '', ['e', 400]],
			['-', '2', '50', ['E+', 1]],
		]);
	});

	test('a body is accepted exactly when it is JSON in UTF-8', async () => {
		const right = Buffer.from('{"chat_id": 7, "name": "🙂 \\n\\ud83d\\ude42", "birth_date": null, "x": [1.5e5]}');
		const bytes = fc.oneof(
			withFaults(right),
			fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array)),
			fc.jsonValue().map((value) => Buffer.from(JSON.stringify(value), 'utf16le')),
			fc.json().map((text) => Buffer.from(`\uFEFF${text}`)),
			fc.nat({ max: 8000 }).map((depth) => Buffer.from(`{"chat_id":7,"x":${'['.repeat(depth)}${']'.repeat(depth)}}`)),
			fc.nat({ max: 16_000 }).map((digits) => Buffer.from(`{"chat_id":1${'0'.repeat(digits)}}`)),
		);
		const check = async (body: Buffer) => {
			const code = codeOf(await post(body));
			expect(isJson(body) ? [undefined, 'invalid_body'] : ['invalid_json']).toContain(code);
		};
		await holds(
			bytes,
			check,
			60,
			['', '{', '{"chat_id":1,}', '{"chat_id":NaN}', 'chat_id=1'].map((text) => Buffer.from(text)),
		);
	});
});

const knownFields = ['chat_id', 'username', 'name', 'birth_date'];

function isStorable(text: string): boolean {
	return text.isWellFormed() && !text.includes('\0') && [...text].length <= 255;
}

function toJson(value: unknown): string {
	return typeof value === 'bigint' || Object.is(value, -0)
		? `${Object.is(value, -0) ? '-' : ''}${value}`
		: (JSON.stringify(value) ?? 'null');
}

function isJson(bytes: Buffer): boolean {
	if (!isUtf8(bytes)) return false;
	try {
		JSON.parse(bytes.toString().replace(/^\uFEFF/, ''));
		return true;
	} catch {
		return false;
	}
}

/** An independent implementation of the rules for the fields of a body. */
function wrongFields(body: Map<string, unknown>): string[] {
	const isText = (value: unknown) =>
		value === undefined || value === null || (typeof value === 'string' && isStorable(value));
	const isDay = (value: unknown) => {
		if (value === undefined || value === null) return true;
		if (typeof value !== 'string' || !/^\d{4}-\d{2}-\d{2}$/.test(value) || value < '0001') return false;
		const date = new Date(`${value}T00:00:00Z`);
		return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(value);
	};
	const chatId = body.get('chat_id');
	return [
		...(Number.isSafeInteger(chatId) && chatId !== 0 ? [] : ['chat_id']),
		...['username', 'name'].filter((name) => !isText(body.get(name))),
		...(isDay(body.get('birth_date')) ? [] : ['birth_date']),
	];
}
