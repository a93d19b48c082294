import { contactColumnNames } from '@contacts/common/company-contacts/company-contact-columns.sql.js';
import { readVariables } from '@contacts/common/process/config.js';
import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { type CrmConfig, crmVariables, toCrmConfig } from './config.js';
import { mappingVersion } from './mapping.js';
import { differencesOf, mirrorConfiguration } from './mirror-configuration.js';
import { readState } from './sync.sql.js';
import {
	emptyMirror,
	makeContact,
	readMirror,
	reasonField,
	type SyncHarness,
	startSync,
	troubleField,
} from './testing/portal.js';

let sync: SyncHarness;

beforeEach(async () => {
	sync = await startSync();
	for (let n = 1; n <= 70; n++) sync.standIn.add(makeContact(n));
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

const state = () => sync.session.run(readState);
const staged = async () => (await database.sql`select from crm_sync_staging`).length;

/** Ends in the middle of a full pass, like a stopped process. */
async function interrupt(): Promise<void> {
	sync.standIn.faults.next({ kind: 'error', code: 'INVALID_CREDENTIALS' }, { when: ({ number }) => number === 5 });
	await expect(sync.synchroniser.pass()).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
	expect(await staged()).toBeGreaterThan(0);
}

/** The configuration of the harness, with other values of some variables; undefined means not set. */
function configWith(changes: Record<string, string | undefined>): CrmConfig {
	const values = {
		BITRIX24_WEBHOOK_URL: sync.standIn.webhookUrl,
		BITRIX24_UF_TROUBLE: troubleField,
		BITRIX24_UF_REASON: reasonField,
		BITRIX24_DEFAULT_COUNTRY: 'RU',
		...changes,
	};
	return toCrmConfig(readVariables(crmVariables, values));
}

/** The same portal under another name, as after a move. */
const elsewhere = () => sync.standIn.webhookUrl.replace('127.0.0.1', 'localhost');
const asUser = (user: number) => sync.standIn.webhookUrl.replace(/\/rest\/\d+\//, `/rest/${user}/`);

describe.each<[string, () => Record<string, string | undefined>, RegExp]>([
	[
		'without the trouble field',
		() => ({ BITRIX24_UF_TROUBLE: undefined }),
		/BITRIX24_UF_TROUBLE is UF_CRM_\d+ there and not set here/,
	],
	[
		'with another reason field',
		() => ({ BITRIX24_UF_REASON: troubleField }),
		/BITRIX24_UF_REASON is UF_CRM_\d+ there and UF_CRM_\d+ here/,
	],
	[
		'with other options',
		() => ({ BITRIX24_TROUBLE_OPTIONS: '7,8' }),
		/BITRIX24_TROUBLE_OPTIONS is not set there and 7,8 here/,
	],
	[
		'without a country',
		() => ({ BITRIX24_DEFAULT_COUNTRY: undefined }),
		/BITRIX24_DEFAULT_COUNTRY is RU there and not set here/,
	],
	[
		'of another portal',
		() => ({ BITRIX24_WEBHOOK_URL: elsewhere() }),
		/BITRIX24_WEBHOOK_URL is 127\.0\.0\.1 there and localhost here/,
	],
])('a configuration %s', (_, changes, message) => {
	test('is refused by every kind of pass, and nothing is changed', async () => {
		await sync.synchroniser.pass();
		const [before, stateBefore, requests] = [await readMirror(), await state(), sync.standIn.requests.length];
		await sync.restart({ config: configWith(changes()) });
		for (const work of [sync.synchroniser.pass(), sync.synchroniser.pass({ full: true }), sync.synchroniser.events()])
			await expect(work).rejects.toThrow(message);
		expect([await readMirror(), await state()]).toEqual([before, stateBefore]);
		expect(sync.standIn.requests).toHaveLength(requests);
	});

	test('makes an interrupted pass begin from the start, once it is confirmed', async () => {
		await interrupt();
		await sync.restart({ config: configWith(changes()) });
		await expect(sync.synchroniser.pass()).rejects.toThrow(message);
		expect(await staged()).toBeGreaterThan(0);

		await sync.restart({ config: configWith(changes()), remap: true });
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full', created: 70 });
		const other = await readMirror();
		await database.sql`delete from company_contacts`;
		await sync.synchroniser.pass({ full: true });
		expect(await readMirror()).toEqual(other);
	});
});

describe('a configuration that somebody has confirmed', () => {
	test('makes a full pass due, even right after the last one', async () => {
		await sync.synchroniser.pass();
		await sync.restart({ config: configWith({ BITRIX24_UF_TROUBLE: undefined }), remap: true });
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full', changed: 4 });
		expect((await readMirror()).filter((row) => row.trouble_contact)).toEqual([]);
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental' });
	});

	test('is the only one that works from then on: two configurations never take turns', async () => {
		await sync.synchroniser.pass();
		const other = configWith({ BITRIX24_DEFAULT_COUNTRY: undefined });
		await sync.restart({ config: other, remap: true });
		await sync.synchroniser.pass();
		const mirror = await readMirror();
		for (let turn = 0; turn < 3; turn++) {
			await sync.restart();
			await expect(sync.synchroniser.pass()).rejects.toMatchObject({ name: 'ConfigurationDiffersError' });
			await sync.restart({ config: other });
			expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental' });
		}
		expect(await readMirror()).toEqual(mirror);
	});
});

describe('without a confirmation', () => {
	test('a webhook of another user is used, and every contact is read again from the first one on', async () => {
		await interrupt();
		const { full_cursor: cursor } = await state();
		expect(cursor).toBeGreaterThan(0);
		await sync.restart({ config: configWith({ BITRIX24_WEBHOOK_URL: asUser(77) }) });
		await sync.synchroniser.adoptConfiguration();
		expect(await state()).toMatchObject({ watermark: null, full_begun_at: null, full_cursor: null });
		expect(await staged()).toBe(0);
	});

	test('the same configuration continues an interrupted pass, with a new secret and on another port too', async () => {
		await interrupt();
		const before = await state();
		const url = new URL(sync.standIn.webhookUrl);
		url.port = '1';
		url.pathname = url.pathname.replace(/[^/]+\/$/, 'new-secret/');
		await sync.restart({ config: configWith({ BITRIX24_WEBHOOK_URL: url.href }) });
		await sync.synchroniser.adoptConfiguration();
		expect(await state()).toMatchObject({ full_cursor: before.full_cursor, full_begun_at: before.full_begun_at });
	});

	test('a mirror without a stored configuration is read again completely', async () => {
		await sync.synchroniser.pass();
		await database.sql`update crm_sync_state set configuration = null`;
		await sync.restart();
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full', changed: 0 });
	});

	test('a later release reads everything again, and an earlier one then refuses to work', () => {
		const own = mirrorConfiguration(configWith({}));
		const later = { ...own, mapping_version: own.mapping_version + 1 };
		expect(differencesOf(own, later)).toEqual([]);
		expect(differencesOf(later, own)).toEqual([expect.stringContaining('a later release made it')]);
	});
});

test('the stored configuration is readable and contains no secret', async () => {
	await sync.synchroniser.pass();
	const { configuration } = await state();
	expect(configuration).toEqual({
		portal: '127.0.0.1',
		webhook_user: 1,
		trouble_field: troubleField,
		reason_field: reasonField,
		trouble_options: [],
		default_country: 'RU',
		mapping_version: 1,
	});
	const secret = new URL(sync.standIn.webhookUrl).pathname.split('/')[3] ?? 'none';
	const rows = await database.sql`select s::text from crm_sync_state s`;
	expect(JSON.stringify(rows)).not.toContain(secret);
});

test('options that the trouble field does not have are reported', async () => {
	sync.standIn.fields.unshift({ name: troubleField, type: 'enumeration', items: [{ id: 7, value: 'Late' }] });
	sync.standIn.fields.splice(1, 1);
	await sync.restart({ config: configWith({ BITRIX24_TROUBLE_OPTIONS: '7,Late,Lost' }) });
	await sync.synchroniser.pass();
	const lines = sync.log.filter((line) => line.includes('BITRIX24_TROUBLE_OPTIONS')).map((line) => JSON.parse(line));
	expect(lines).toMatchObject([{ level: 'warn', options: ['Lost'] }]);
});

test('another column comes with another version of the mapping, so that every contact is read again', () => {
	expect({ version: mappingVersion, columns: contactColumnNames }).toEqual({
		version: 1,
		columns: ['phone', 'company_ids', 'name', 'assigned_by_id', 'trouble_contact', 'perplexity_reason'],
	});
});
