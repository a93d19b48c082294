import { startStandIn } from '@contacts/bitrix24-stand-in';
import { openDatabase } from '@contacts/common/database/database.js';
import { urlAs } from '@contacts/common/database/roles.js';
import { createLogger } from '@contacts/common/logger.js';
import { createServer, type Server } from '@contacts/common/server.js';
import { createTestDatabase, rolePassword, type TestDatabase } from '@contacts/common/testing/database.js';
import { expectProblem } from '@contacts/common/testing/shared-contract.js';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { receiveEvents } from './receiver.js';

const token = 'application-token-1';
let database: TestDatabase;
let server: Server;
let url: string;
const log: string[] = [];

beforeAll(async () => {
	database = await createTestDatabase();
	const own = openDatabase({
		url: urlAs(database.url, 'company-contacts-sync', rolePassword),
		applicationName: 'events',
		poolSize: 2,
	});
	const logger = createLogger({
		name: 'events',
		level: 'trace',
		destination: { write: (line: string) => void log.push(line) },
	});
	server = await createServer({ logger });
	server.addHook('onClose', () => own.close());
	await server.register(receiveEvents, { database: own, token });
	url = `${await server.listen({ host: '127.0.0.1', port: 0 })}/bitrix24/events`;
});
afterAll(async () => {
	await server?.close();
	await database?.drop();
});
beforeEach(async () => {
	await database.sql`delete from crm_event_inbox`;
});

const inbox = async () => [
	...(await database.sql`select bitrix_id::int, event from crm_event_inbox order by bitrix_id`),
];
const send = (body: string, type = 'application/x-www-form-urlencoded') =>
	fetch(url, { method: 'POST', body, headers: { 'content-type': type } });
const form = (fields: Record<string, string>) =>
	new URLSearchParams({
		event: 'ONCRMCONTACTUPDATE',
		'data[FIELDS][ID]': '7',
		'auth[application_token]': token,
		...fields,
	}).toString();

test('what the portal really sends is noted and answered', async () => {
	const portal = await startStandIn({ applicationToken: token });
	const contact = portal.add({ lastName: 'Petrov' });
	for (const event of ['ONCRMCONTACTADD', 'ONCRMCONTACTUPDATE', 'ONCRMCONTACTDELETE'] as const) {
		expect(await portal.sendEvent(url, event, contact.id)).toEqual({ status: 200 });
		expect(await inbox()).toEqual([{ bitrix_id: contact.id, event }]);
	}
	await portal.close();
});

test('a thousand events at once leave one row a contact', async () => {
	const answers = await Promise.all(
		Array.from({ length: 1000 }, (_, index) => send(form({ 'data[FIELDS][ID]': String((index % 100) + 1) }))),
	);
	expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]));
	expect(await inbox()).toHaveLength(100);
});

test('an event of a contact that could not be read is due at once again', async () => {
	await send(form({}));
	await database.sql`update crm_event_inbox set attempts = 3, retry_at = now() + interval '1 hour'`;
	await send(form({}));
	expect([...(await database.sql`select bitrix_id::int, attempts, retry_at from crm_event_inbox`)]).toEqual([
		{ bitrix_id: 7, attempts: 0, retry_at: null },
	]);
});

describe('is refused and leaves nothing behind', () => {
	test.each([
		['a wrong token', form({ 'auth[application_token]': 'application-token-2' }), 401, 'unauthorized'],
		['no token', 'event=ONCRMCONTACTUPDATE&data%5BFIELDS%5D%5BID%5D=7', 401, 'unauthorized'],
		['an empty body', '', 401, 'unauthorized'],
		['another event', form({ event: 'ONCRMDEALUPDATE' }), 400, 'invalid_body'],
		['no contact', form({ 'data[FIELDS][ID]': '' }), 400, 'invalid_body'],
		['contact 0', form({ 'data[FIELDS][ID]': '0' }), 400, 'invalid_body'],
		['contact -1', form({ 'data[FIELDS][ID]': '-1' }), 400, 'invalid_body'],
		['contact 1.5', form({ 'data[FIELDS][ID]': '1.5' }), 400, 'invalid_body'],
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

test('the token is in no log line', () => {
	expect(log.length).toBeGreaterThan(10);
	expect(log.join('')).not.toContain('application-token');
});
