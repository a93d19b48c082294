import { openDatabase } from '@contacts/common/database/database.js';
import { createServer, type Server } from '@contacts/common/http/server.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { urlAs } from '@contacts/migrations/roles.js';
import { rolePassword } from '@contacts/testing/database.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { database, test } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { afterAll, beforeEach, describe, expect } from 'vitest';
import { webhook } from './webhook.js';

const token = 'application-token-0123456789abcdef';
let server: Server;
let url: string;
const log: string[] = [];
const registry = new Registry();

test.beforeAll(async () => {
	const own = openDatabase({
		// Longer than the events of a burst wait on a busy machine.
		deadlineMs: 60_000,
		url: urlAs(database.url, 'crm-sync', rolePassword),
		applicationName: 'events',
		clock: () => performance.now(),
		poolSize: 2,
	});
	const logger = createLogger({
		name: 'events',
		level: 'trace',
		destination: { write: (line: string) => void log.push(line) },
	});
	server = await createServer({ logger, trustProxy: ['127.0.0.1'] });
	server.addHook('onClose', () => own.close());
	await server.register(webhook, { database: own, token, registry, clock: () => 0 });
	url = `${await server.listen({ host: '127.0.0.1', port: 0 })}/bitrix24/events`;
});
afterAll(() => server?.close());
beforeEach(async () => {
	await database.sql`delete from crm_event_inbox`;
});

const inbox = async () => [...(await database.sql`select bitrix_id::int from crm_event_inbox order by bitrix_id`)];
const send = (body: string, type = 'application/x-www-form-urlencoded', from = '203.0.113.1') =>
	fetch(url, { method: 'POST', body, headers: { 'content-type': type, 'x-forwarded-for': from } });
/** An event as an outgoing webhook sends it. */
const form = (fields: Record<string, string>) =>
	new URLSearchParams({
		event: 'ONCRMCONTACTUPDATE',
		event_handler_id: '58',
		'data[FIELDS][ID]': '7',
		ts: '1727018926',
		'auth[domain]': 'stand-in.bitrix24.example',
		'auth[client_endpoint]': 'https://stand-in.bitrix24.example/rest/',
		'auth[server_endpoint]': 'https://oauth.bitrix24.example/rest/',
		'auth[member_id]': 'a223c6b3710f85df22e9377d6c4f7553',
		'auth[application_token]': token,
		...fields,
	}).toString();

test('the CRM’s events are stored and acknowledged', async () => {
	for (const [index, event] of ['ONCRMCONTACTADD', 'ONCRMCONTACTUPDATE', 'ONCRMCONTACTDELETE'].entries()) {
		expect((await send(form({ event, 'data[FIELDS][ID]': String(index + 1) }))).status).toBe(200);
		expect(await inbox()).toHaveLength(index + 1);
	}
});

test('events of the same contacts at the same time leave one row for each contact', async () => {
	const ids = Array.from({ length: 100 }, (_, index) => String((index % 10) + 1));
	const responses = await Promise.all(ids.map((id) => send(form({ 'data[FIELDS][ID]': id }))));
	expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
	expect(await inbox()).toHaveLength(10);
});

test('a new event of a contact that could not be read is due at once', async () => {
	await send(form({}));
	await database.sql`update crm_event_inbox set attempts = 3, retry_at = now() + interval '1 hour'`;
	await send(form({}));
	expect([...(await database.sql`select bitrix_id::int, attempts, retry_at from crm_event_inbox`)]).toEqual([
		{ bitrix_id: 7, attempts: 0, retry_at: null },
	]);
});

describe('is refused and leaves nothing behind', () => {
	test.each([
		['a wrong token', form({ 'auth[application_token]': 'application-token-0123456789abcdeF' }), 401, 'unauthorized'],
		['an empty body', '', 401, 'unauthorized'],
		['another event', form({ event: 'ONCRMDEALUPDATE' }), 400, 'invalid_body'],
		['no contact', form({ 'data[FIELDS][ID]': '' }), 400, 'invalid_body'],
		['contact 99999999999999999999', form({ 'data[FIELDS][ID]': '99999999999999999999' }), 400, 'invalid_body'],
		['too much', `${form({})}&x=${'x'.repeat(17_000)}`, 413, 'payload_too_large'],
	])('%s', async (_, body, status, code) => {
		await expectProblem(await send(body), status, code);
		expect(await inbox()).toEqual([]);
	});

	test('another media type or method', async () => {
		await expectProblem(await send('{}', 'application/json'), 415, 'unsupported_media_type');
		await expectProblem(await fetch(url), 405, 'method_not_allowed');
		expect(await inbox()).toEqual([]);
	});
});

test('refused requests of every kind of a client address are limited together, and valid events are not', async () => {
	const kinds: [string, string?][] = [
		[form({ 'auth[application_token]': 'wrong' })],
		['{}', 'application/json'],
		['x'.repeat(17_000)],
		[form({ event: 'ONCRMDEALUPDATE' })],
	];
	const refused = await Promise.all(
		Array.from({ length: 260 }, (_, n) => {
			const [body, type] = kinds[n % kinds.length] ?? [''];
			return send(body, type, '203.0.113.2');
		}),
	);
	const limited = refused.filter(({ status }) => status === 429);
	expect(limited).toHaveLength(10);
	expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([400, 401, 413, 415, 429]));
	expect(limited[0]?.headers.get('retry-after')).toBe('1');
	expect((await send(form({}), undefined, '203.0.113.2')).status).toBe(200);
	expect(await registry.metrics()).toMatch(/^authentication_failures_total\{limited="true"\} 10$/m);
});

test('the last place of an inbox of 100,000 contacts is used; then events of other contacts are dropped and a full run is due', async () => {
	const isFullDue = async () =>
		(await database.sql<{ due: boolean }[]>`select last_full_at is null as due from crm_sync_state`)[0]?.due;
	const counted = async () =>
		(await registry.getSingleMetric('crm_events_total')?.get())?.values.map(({ value }) => value);
	const sendOf = async (id: number) => {
		expect((await send(form({ 'data[FIELDS][ID]': String(id) }))).status).toBe(200);
		return { contacts: (await inbox()).length, isFullDue: await isFullDue() };
	};
	await database.sql`update crm_sync_state set last_full_at = now()`;
	await database.sql`
		insert into crm_event_inbox (bitrix_id) select generate_series(1, 99999)`;
	const [stored = 0, dropped = 0] = (await counted()) ?? [];
	expect(await sendOf(200_000)).toEqual({ contacts: 100_000, isFullDue: false });
	expect(await sendOf(5)).toEqual({ contacts: 100_000, isFullDue: false });
	expect(await sendOf(200_001)).toEqual({ contacts: 100_000, isFullDue: true });
	expect(await counted()).toEqual([stored + 2, dropped + 1]);
});

test('the token is in no log line', () => {
	expect(log.length).toBeGreaterThan(10);
	expect(log.join('')).not.toContain('application-token');
});
