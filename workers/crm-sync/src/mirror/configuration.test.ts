import { readVariables } from '@contacts/common/process/config.js';
import { database, test } from '@contacts/testing/test.js';
import { beforeEach, describe, expect } from 'vitest';
import { type CrmConfig, crmVariables, toCrmConfig } from '../config.js';
import {
	type ExpectedRow,
	error,
	interrupt,
	makeContacts,
	readMirror,
	reasonField,
	type SyncHarness,
	startSync,
	storeEvents,
	troubleField,
} from '../testing/harness.js';
import { compare, mirrorConfiguration } from './configuration.js';

let sync: SyncHarness;

beforeEach(async () => {
	sync = await startSync({ contacts: makeContacts(120) });
});

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
/** Another webhook of the same or another CRM. */
const webhook = (pattern: RegExp | string, by: string) => ({
	BITRIX24_WEBHOOK_URL: sync.standIn.webhookUrl.replace(pattern, by),
});

test.each<[string, () => Record<string, string | undefined>, RegExp]>([
	[
		'without the trouble field',
		() => ({ BITRIX24_UF_TROUBLE: undefined }),
		/UF_TROUBLE is UF_CRM_\d+ there and not set here/,
	],
	[
		'with another reason field',
		() => ({ BITRIX24_UF_REASON: troubleField }),
		/UF_REASON is UF_CRM_\d+ there and UF_CRM_\d+ here/,
	],
	['with other options', () => ({ BITRIX24_TROUBLE_OPTIONS: '7,8' }), /TROUBLE_OPTIONS is not set there and 7,8 here/],
	['without a country', () => ({ BITRIX24_DEFAULT_COUNTRY: undefined }), /COUNTRY is RU there and not set here/],
	['of another CRM', () => webhook('127.0.0.1', 'localhost'), /WEBHOOK_URL is 127\.0\.0\.1 there and localhost here/],
])(
	'a configuration %s is refused by every run, and when it is confirmed, every contact is read again',
	async (_, changes, message) => {
		await sync.synchroniser.run();
		await sync.synchroniser.run({ full: true });
		const [before, stateBefore] = [await readMirror(), await sync.state()];
		sync.standIn.requests.length = 0;
		await sync.restart({ config: configWith(changes()) });
		for (const work of [sync.synchroniser.run(), sync.synchroniser.run({ full: true }), sync.synchroniser.events()])
			await expect(work).rejects.toThrow(message);
		expect([await readMirror(), await sync.state()]).toEqual([before, stateBefore]);
		expect(sync.standIn.requests).toEqual([]);

		await sync.restart({ config: configWith(changes()), remap: true });
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full' });
		const mirror = await readMirror();
		await database.sql`delete from company_contacts`;
		await sync.synchroniser.run({ full: true });
		expect(await readMirror()).toEqual(mirror);
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental' });
		// The earlier configuration is the other one now: two never take turns.
		await sync.restart();
		await expect(sync.synchroniser.run()).rejects.toMatchObject({ name: 'ConfigurationDiffersError' });
	},
);

test('a confirmed configuration holds nothing of the earlier one: it may be the phone of another person', async () => {
	await sync.synchroniser.run();
	for (const id of sync.ids()) sync.standIn.update(id, { phones: [], companyIds: [] }, { touch: false });
	expect(await sync.synchroniser.run({ full: true })).toMatchObject({ isHeld: true });
	await sync.restart({ config: configWith(webhook('127.0.0.1', 'localhost')), remap: true });
	await interrupt(sync);
	expect(await sync.state()).toMatchObject({ held_run: null });
	await sync.restart({ config: configWith(webhook('127.0.0.1', 'localhost')) });
	expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full', isHeld: false });
	expect((await readMirror()).filter(({ phone, company_ids: ids }) => phone !== null || ids !== null)).toEqual([]);
});

test('a confirmed configuration keeps no phone of another person, also while it holds contacts or has not read all', async () => {
	await sync.synchroniser.run();
	const unread = sync.ids().slice(0, 30);
	for (const id of sync.ids()) sync.standIn.update(id, { phones: [], companyIds: [] }, { touch: false });
	for (const id of unread) sync.standIn.update(id, { raw: { assignedById: undefined } }, { touch: false });
	for (const id of sync.ids().slice(90)) sync.standIn.remove(id);
	const isKept = ({ phone, company_ids: ids }: ExpectedRow) => phone !== null || ids !== null;
	await sync.restart({ config: configWith(webhook('127.0.0.1', 'localhost')), remap: true });
	await expect(sync.synchroniser.run()).rejects.toMatchObject({ name: 'IncompleteRunError', counts: { isHeld: true } });
	expect((await readMirror()).slice(30, 90).filter(isKept)).toEqual([]);

	for (const id of unread) sync.standIn.update(id, { raw: {} }, { touch: false });
	await storeEvents(...unread.slice(0, 5));
	await sync.synchroniser.events();
	expect((await readMirror()).slice(0, 5).filter(isKept)).toEqual([]);
	expect(await sync.synchroniser.run({ full: true })).toMatchObject({ isHeld: true });
	expect((await readMirror()).slice(0, 90).filter(isKept)).toEqual([]);
	expect(await sync.state()).toMatchObject({ held_deletions: 30, held_emptied: 0, remapped: false });
});

test('a confirmed configuration makes an interrupted run begin from the start', async () => {
	await interrupt(sync);
	const config = configWith({ BITRIX24_DEFAULT_COUNTRY: undefined });
	await sync.restart({ config });
	await expect(sync.synchroniser.run()).rejects.toMatchObject({ name: 'ConfigurationDiffersError' });
	expect((await sync.state()).full_cursor).toBeGreaterThan(0);
	await sync.restart({ config, remap: true });
	expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full', created: 120 });
});

describe('a configuration whose CRM has not responded yet', () => {
	const refused = { code: 'INVALID_CREDENTIALS' };
	const countryless = () => configWith({ BITRIX24_DEFAULT_COUNTRY: undefined });

	test('is forgotten: nothing counts as mirrored, and another one needs no confirmation', async () => {
		sync.standIn.faults.next(error(refused.code));
		await expect(sync.synchroniser.run()).rejects.toMatchObject(refused);
		expect((await sync.state()).configuration).toBe(null);
		expect(await database.sql`select erase_company_contacts('{1}') as erased`).toEqual([{ erased: 0 }]);
		await sync.restart({ config: countryless() });
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full', created: 120 });
	});

	test('replaces no other one, even if it is confirmed', async () => {
		await sync.synchroniser.run();
		await sync.restart({ config: countryless(), remap: true });
		sync.standIn.faults.next(error(refused.code));
		await expect(sync.synchroniser.run()).rejects.toMatchObject(refused);
		await sync.restart();
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental' });
	});
});

describe('without a confirmation', () => {
	test.each(['run', 'events'] as const)(
		'a webhook of another user is used by %s, and every contact is read again from the first one on',
		async (work) => {
			await interrupt(sync);
			await database.sql`update crm_sync_state set configuration = jsonb_set(configuration, '{webhook_user}', '77')`;
			await sync.restart();
			sync.standIn.faults.next(error('INVALID_CREDENTIALS'), { method: 'crm.item.list' });
			await sync.synchroniser[work]().catch(() => undefined);
			expect(await sync.state()).toMatchObject({ watermark: null, full_begun_at: null, full_cursor: null });
			expect(await database.sql`select from crm_sync_staging`).toHaveLength(0);
		},
	);

	test('the same configuration continues an interrupted run, with a new secret and on another port too', async () => {
		await interrupt(sync);
		const { full_cursor, full_begun_at } = await sync.state();
		await sync.restart({ config: configWith(webhook(/:\d+(.+\/)[^/]+\/$/, ':1$1new-secret/')) });
		await expect(sync.synchroniser.events()).rejects.toMatchObject({ code: 'network' });
		expect(await sync.state()).toMatchObject({ full_cursor, full_begun_at });
	});

	test('a later release reads everything again, and an earlier one then refuses to work', () => {
		const own = mirrorConfiguration(configWith({}));
		const later = { ...own, mapping_version: own.mapping_version + 1 };
		expect(compare(own, later)).toEqual({ differences: [], isNew: true });
		expect(compare(later, own).differences).toEqual([expect.stringContaining('a later release made it')]);
	});
});

test('options that the trouble field does not have are reported', async () => {
	const items = [{ id: 7, value: 'Late' }];
	sync.standIn.fields.splice(0, 1, { name: troubleField, type: 'enumeration', items });
	await sync.restart({ config: configWith({ BITRIX24_TROUBLE_OPTIONS: '7,Late,Lost' }) });
	await sync.synchroniser.run();
	const lines = sync.log.filter((line) => line.includes('BITRIX24_TROUBLE_OPTIONS')).map((line) => JSON.parse(line));
	expect(lines).toMatchObject([{ level: 'warn', options: ['Lost'] }]);
});
