import { type Database, openDatabase } from '@contacts/common/database/database.js';
import { addProject, startTestApp } from '@contacts/testing/app.js';
import { database as db, test } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { expect, onTestFinished } from 'vitest';
import { service } from './app.js';
import { createListCache } from './list-cache.js';
import { openManualPoll } from './testing/manual-poll.js';

const first = Date.parse('2025-11-04T09:30:00Z');
const second = Date.parse('2025-11-04T09:35:00Z');
const endPass = (at: number) => db.sql`update crm_sync_state set last_success_at = ${new Date(at)}`;

test.beforeEach(async () => {
	await endPass(first);
});

/** A cache of the real lists. While `held` is set, the result of a query waits for it. */
function openCache() {
	const opened = openDatabase({ url: db.url, applicationName: 'synced at', poolSize: 2 });
	onTestFinished(() => opened.close());
	const state: { read: number; held?: Promise<void> | undefined } = { read: 0 };
	const query: Database['query'] = async (...statement) => {
		const { held } = state;
		const rows = await opened.query(...statement);
		state.read++;
		await held;
		return rows;
	};
	const { poll, see } = openManualPoll();
	const cache = createListCache({
		database: { ...opened, query },
		poll,
		registry: new Registry(),
		maxBytes: 10_000_000,
		maxListBytes: 10_000_000,
	});
	/** Starts to read a list, and keeps what was read until `release` is called. */
	async function readHeld(companyId: string) {
		let release: () => void = () => undefined;
		state.held = new Promise((resolve) => {
			release = resolve;
		});
		const list = cache.read(companyId);
		await expect.poll(() => state.read, { timeout: 20_000 }).toBe(1);
		state.held = undefined;
		return { list, release };
	}
	return { cache, see, readHeld };
}

test('a list that changes while it is read for the first time has the time of the data that was read', async () => {
	const { see, readHeld } = openCache();
	const { list, release } = await readHeld('7');
	await db.sql`insert into company_contacts (bitrix_id) values (1)`;
	await endPass(second);
	await see();
	release();
	expect((await list).syncedAt).toBe(first);
});

test('a list read before the end of a pass does not have the time of that pass', async () => {
	const { cache, readHeld } = openCache();
	const { list, release } = await readHeld('7');
	await endPass(second);
	expect((await cache.read('8')).syncedAt).toBe(second);
	release();
	expect((await list).syncedAt).toBe(first);
});

test('a list in memory gets the time of a later pass that changed nothing', async () => {
	const { cache, see } = openCache();
	expect((await cache.read('7')).syncedAt).toBe(first);
	await endPass(second);
	await see();
	expect(cache.find('7')?.syncedAt).toBe(second);
});

test('an empty list that is streamed has Contacts-Synced-At', async () => {
	await db.sql`delete from company_contacts`;
	await addProject(db.sql, 'partner', 'partner-key');
	const app = await startTestApp(service, db.url, { environment: { LIST_STREAM_MEGABYTES: '0' } });
	onTestFinished(() => app.close());
	const response = await app.fetch('/api/company_contacts.list?project=partner&api_key=partner-key');
	expect(await response.text()).toBe('{"count":0,"data":[]}');
	expect(response.headers.get('contacts-synced-at')).toBe(new Date(first).toISOString());
});
