import { addProject } from '@contacts/testing/app.js';
import { cpuSecondsOf } from '@contacts/testing/proc.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { startServiceProcess } from '../services.js';

/** The longest body that is accepted. */
const bodyBytes = 16_384;

/** How many times the processor time of a usual request a request may take. What is quadratic takes hundreds of times as much. */
const maxRatio = 20;

/** A body of `bodyBytes`, filled with a repeated unit. */
function filled(start: string, unit: string, end = ''): string {
	const rest = bodyBytes - start.length - end.length;
	return start + unit.repeat(Math.ceil(rest / unit.length)).slice(0, rest) + end;
}

/** The same, but with whole units only, each with its number. */
function listed(start: string, unit: (index: number) => string, end: string): string {
	let body = start + unit(0);
	for (let index = 1; body.length + unit(index).length + 1 + end.length <= bodyBytes; index++)
		body += `,${unit(index)}`;
	return body + end;
}

const depth = bodyBytes / 2;
const usualJson = filled('{"chat_id":7,"name":"', 'Ivan Petrov ', '"}');
const jsonBodies: Record<string, string> = {
	'a fraction with zeros before its last digit': filled('{"chat_id":0.', '0', '1}'),
	'an integer with zeros before its last digit': filled('{"chat_id":1', '0', '1}'),
	'a fraction with many runs of zeros': filled('{"chat_id":0.', '0001', '1}'),
	'an exponent with zeros in front': filled('{"chat_id":1e', '0', '1}'),
	'thousands of fractions': listed('[', () => '1.0', ']'),
	'a string of escaped quotation marks': filled('{"chat_id":1.0,"name":"', '\\"', '"}'),
	'a string of backslashes': filled('{"chat_id":1.0,"name":"', '\\\\', '"}'),
	'a string of fractions': filled('{"chat_id":1.0,"name":"', '1.01e+1', '"}'),
	'a string without an end': filled('{"chat_id":1.0,"name":"', '\\"'),
	'a date of digits': filled('{"chat_id":7,"birth_date":"2000-01-0', '1', '"}'),
	'thousands of keys': listed('{', (index) => `"${index.toString(36)}":1.0`, '}'),
	'nested arrays': '['.repeat(depth) + ']'.repeat(depth),
	'nested objects': `${'{"a":'.repeat(2700)}1.0${'}'.repeat(2700)}`,
};

const usualForm = filled('event=ONCRMCONTACTUPDATE&data[FIELDS][ID]=7&x=', 'y');
const formBodies: Record<string, string> = {
	'thousands of fields': filled('a=', '&a='),
	'a nested name': filled('data', '[FIELDS]', '=1'),
	'malformed percent-encoding': filled('event=', '%'),
	'a long number': filled('data[FIELDS][ID]=', '0', '1'),
};

/** Requests of one kind in a row. The cheapest of the rounds counts: something disturbed the others. */
const requestsPerRound = 10;
const rounds = 4;

/**
 * Returns the milliseconds of processor time that a process uses for each of these requests. The requests take turns, so
 * that whatever else the machine does concerns all of them.
 */
async function processorMsOf(pid: number, requests: readonly (() => Promise<unknown>)[]): Promise<number[]> {
	const cheapest = requests.map(() => Number.POSITIVE_INFINITY);
	for (let round = 0; round < rounds; round++) {
		for (const [index, request] of requests.entries()) {
			const before = cpuSecondsOf(pid);
			for (let count = 0; count < requestsPerRound; count++) await request();
			const ms = ((cpuSecondsOf(pid) - before) * 1000) / requestsPerRound;
			cheapest[index] = Math.min(cheapest[index] as number, ms);
		}
	}
	return cheapest;
}

/** Expects that none of these requests takes the process much more processor time than the usual one. */
async function expectCheap(pid: number, usual: () => Promise<unknown>, others: Record<string, () => Promise<unknown>>) {
	const [baseline = Number.NaN, ...times] = await processorMsOf(pid, [usual, ...Object.values(others)]);
	const ratios = Object.keys(others).map((name, index) => [name, (times[index] as number) / baseline] as const);
	console.log(
		`a usual request: ${baseline.toFixed(2)} ms of processor time; as a multiple of it:`,
		Object.fromEntries(ratios.map(([name, ratio]) => [name, Number(ratio.toFixed(1))])),
	);
	expect(ratios.filter(([, ratio]) => !(ratio < maxRatio))).toEqual([]);
}

const sendEach = (bodies: Record<string, string>, send: (body: string) => Promise<unknown>) =>
	Object.fromEntries(Object.entries(bodies).map(([name, body]) => [name, () => send(body)]));

describe('no body takes twenty times the processor time of a usual one of its length', () => {
	// Every route of the service reads its body with the same parser.
	test('for an upsert', async () => {
		await addProject(database.sql, 'bot', 'good-key');
		const service = startServiceProcess('personal-contacts');
		const url = `${await service.listening()}/api/personal_contacts?project=bot&api_key=good-key`;
		const send = async (body: string): Promise<unknown> => {
			const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
			await response.arrayBuffer();
			// After a pause of the machine the service may shed load.
			if (response.status === 503) return send(body);
			expect([200, 400]).toContain(response.status);
			return undefined;
		};
		await expectCheap(service.pid, () => send(usualJson), sendEach(jsonBodies, send));
	});

	test('for the receiver of events, whose client has no token', async () => {
		const synchroniser = startServiceProcess('crm-sync', {
			// Nothing listens there.
			BITRIX24_WEBHOOK_URL: 'http://127.0.0.1:9/rest/1/secret/',
			BITRIX24_APPLICATION_TOKEN: 'application-token-0123456789abcdef',
		});
		const url = `${await synchroniser.listening()}/bitrix24/events`;
		const sendAs = (type: string) => async (body: string) => {
			const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': type } });
			expect([400, 401, 415, 429]).toContain(response.status);
			await response.arrayBuffer();
		};
		const sendForm = sendAs('application/x-www-form-urlencoded');
		await expectCheap(synchroniser.pid, () => sendForm(usualForm), {
			...sendEach(formBodies, sendForm),
			...sendEach(jsonBodies, sendAs('application/json')),
		});
	});
});

describe('of company_contacts.list, nothing in a request takes twenty times the processor time of a usual one of its length', () => {
	/** Less than all headers together may have. */
	const filler = (start: string, unit: string) => filled(start, unit).slice(0, 15_000);
	const queries: Record<string, string> = {
		'malformed parameters': filler('', '%&'),
		'names that may be those of credentials': filler('', 'api%5Fke%&'),
		'percent-encoded letters': filler('x=', '%41'),
		'a credential thousands of times': filler('', 'api_key=%&'),
		'thousands of names': listed('', (index) => `${index.toString(36)}&`, '')
			.replaceAll(',', '')
			.slice(0, 15_000),
		spaces: filler('x=', '+'),
	};
	const headers: Record<string, [name: string, value: string]> = {
		'thousands of entity tags': ['if-none-match', filler('', '"a",')],
		'entity tags without an end': ['if-none-match', filler('', 'W/"')],
		'a date of digits': ['if-modified-since', filler('Sun, ', '00:00:00 ')],
		'thousands of encodings': ['accept-encoding', filler('', 'a,')],
		'thousands of weights': ['accept-encoding', filler('', 'a;q=0,')],
		'an encoding with thousands of weights': ['accept-encoding', filler('a', ';q=')],
		'an encoding with spaces': ['accept-encoding', filler('a;', ' ')],
		'thousands of addresses': ['x-forwarded-for', filler('', '203.0.113.1,')],
	};

	test('whose queries come without a key, and whose headers come with one', async () => {
		await addProject(database.sql, 'good', 'good-key');
		const service = startServiceProcess('company-contacts', {
			RATE_LIMIT_PER_SECOND: '1000000',
			RATE_LIMIT_BURST: '1000000',
			TRUST_PROXY: 'loopback',
		});
		const url = `${await service.listening()}/api/company_contacts.list?project=good`;
		const send = async (query: string, more: Record<string, string> = {}): Promise<unknown> => {
			const response = await fetch(`${url}&${query}`, { headers: more });
			await response.arrayBuffer();
			if (response.status === 503) return send(query, more);
			expect([200, 400, 401]).toContain(response.status);
			return undefined;
		};
		const sendWithoutKey = (query: string) => send(`api_key=wrong&${query}`);
		await expectCheap(service.pid, () => sendWithoutKey(filler('x=', 'y')), sendEach(queries, sendWithoutKey));
		const sendHeader = (name: string, value: string) => send('api_key=good-key', { [name]: value });
		const each = Object.entries(headers).map(([name, [header, value]]) => [name, () => sendHeader(header, value)]);
		await expectCheap(service.pid, () => sendHeader('x', filler('', 'y')), Object.fromEntries(each));
	});
});
