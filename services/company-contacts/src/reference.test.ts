import { startTestApp, type TestApp } from '@contacts/testing/app.js';
import { describeReference } from '@contacts/testing/shared-reference.js';
import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { service } from './app.js';

const changes = '/api/company_contacts.changes?project=partner&api_key=partner-key';

/** The cursor after all current changes. */
async function lastCursor(app: TestApp): Promise<string> {
	const response = await app.fetch(changes);
	const { cursor, has_more } = (await response.json()) as { cursor: string; has_more: boolean };
	expect(has_more).toBe(false);
	return `&cursor=${cursor}`;
}

// A GET does not read its body; the gateway refuses a large one.
const common = { method: 'GET' as const, ofGateway: ['413 payload_too_large'] };

describeReference(service, new URL('../../../docs/openapi/company-contacts.json', import.meta.url), [
	{
		...common,
		path: '/api/company_contacts.list',
		cases: [
			{
				name: 'contacts with all fields, and with none',
				status: 200,
				async arrange({ sql }) {
					await sql`
					insert into company_contacts
						(bitrix_id, phone, company_ids, name, assigned_by_id, trouble_contact, perplexity_reason)
					values
						(50, '+79001234567', '{7,1}', 'Somebody', 5, true, 'somehow'),
						(9007199254740991, null, null, null, null, false, null)`;
				},
			},
			{
				name: 'a compressed list with the time of the last synchronisation',
				status: 200,
				init: { headers: { 'accept-encoding': 'br' } },
				app: {},
				async arrange({ sql }) {
					await sql`insert into company_contacts (bitrix_id, name) select n, repeat('x', 100) from generate_series(100, 200) n`;
					await sql`update crm_sync_state set last_success_at = now()`;
				},
			},
			{ name: 'no contacts', status: 200, query: '&company_id=4711' },
			{ name: 'the list that is known', status: 304, init: { headers: { 'if-none-match': '*' } } },
			{ name: 'a wrong company_id', status: 400, code: 'invalid_query', query: '&company_id=0' },
			{
				name: 'an empty bucket',
				status: 429,
				code: 'rate_limited',
				app: { environment: { RATE_LIMIT_BURST: '1', RATE_LIMIT_PER_SECOND: '1' }, clock: () => 0 },
				async arrange(_, app) {
					await app.fetch('/api/company_contacts.list?project=partner&api_key=partner-key');
				},
			},
			{
				name: 'too many wrong keys',
				status: 429,
				code: 'rate_limited',
				query: '&api_key=twice',
				app: { environment: { RATE_LIMIT_BURST: '1', RATE_LIMIT_PER_SECOND: '1' }, clock: () => 0 },
				async arrange(_, app) {
					await app.fetch('/api/company_contacts.list?project=partner&api_key=wrong');
				},
			},
		],
	},
	{
		...common,
		path: '/api/company_contacts.changes',
		cases: [
			{
				name: 'contacts, compressed',
				status: 200,
				init: { headers: { 'accept-encoding': 'br' } },
				app: {},
				async arrange({ sql }) {
					await sql`insert into company_contacts (bitrix_id, name) select n, repeat('x', 100) from generate_series(300, 400) n`;
				},
			},
			{
				name: 'changes and deletions',
				status: 200,
				query: lastCursor,
				app: {},
				async arrange({ sql }) {
					await sql`delete from company_contacts where bitrix_id > 300`;
					await sql`update company_contacts set name = 'y' where bitrix_id = 300`;
				},
			},
			{ name: 'the response that is known', status: 304, init: { headers: { 'if-none-match': '*' } } },
			{ name: 'a wrong cursor', status: 400, code: 'invalid_query', query: '&cursor=wrong' },
			{
				name: 'a cursor from before a restore',
				status: 410,
				code: 'cursor_expired',
				query: lastCursor,
				async arrange({ sql }, app) {
					const before = await lastCursor(app);
					await sql`select begin_company_contacts_epoch()`;
					const status = async () => (await app.fetch(`${changes}${before}`)).status;
					await expect.poll(status).toBe(410);
				},
			},
			{
				name: 'an empty bucket',
				status: 429,
				code: 'rate_limited',
				app: { environment: { RATE_LIMIT_BURST: '1', RATE_LIMIT_PER_SECOND: '1' }, clock: () => 0 },
				async arrange(_, app) {
					await app.fetch('/api/company_contacts.list?project=partner&api_key=partner-key');
				},
			},
		],
	},
]);

test('the document states the configured rate limit', async () => {
	const environment = { RATE_LIMIT_BURST: '17', RATE_LIMIT_PER_SECOND: '3' };
	const app = await startTestApp(service, database.url, { environment });
	const { info } = (await (await app.fetch('/openapi.json')).json()) as { info: { description: string } };
	expect(info.description).toContain('17 tokens, refilled at 3 a second');
	await app.close();
});
