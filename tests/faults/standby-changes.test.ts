import { type CompanyContact, type CopyStore, createCompanyContactsClient } from '@contacts/client';
import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { startReplicatedPostgres } from '@contacts/testing/replicated-postgres.js';
import { startServiceProcess } from '@contacts/testing/service-process.js';
import { expect, onTestFinished, test } from 'vitest';

const credentials = { project: 'partner', apiKey: 'partner-key' };

/** A copy in memory, with the number of times that it was begun. */
class Copy implements CopyStore {
	contacts = new Map<number, CompanyContact>();
	cursor: string | undefined;
	begun = 0;

	readCursor(): string | undefined {
		return this.cursor;
	}

	apply({ changes, cursor, reset }: Parameters<CopyStore['apply']>[0]): void {
		if (reset) {
			this.begun++;
			this.contacts.clear();
		}
		for (const change of changes) {
			if (change.deleted) this.contacts.delete(change.contact.id);
			else this.contacts.set(change.contact.id, change.contact);
		}
		this.cursor = cursor;
	}

	get list(): CompanyContact[] {
		return [...this.contacts.values()].sort((one, other) => one.id - other.id);
	}
}

test('a copy that is read from the primary and from a standby in turn equals the list: while the standby is behind, when it has caught up, and after its promotion', async () => {
	const servers = await startReplicatedPostgres();
	onTestFinished(() => servers.remove());
	const onPrimary = (statement: string) =>
		servers.asSuperuser(servers.primaryUrl(), (sql) => sql.unsafe(statement).simple().execute());
	const onStandby = (statement: string) =>
		servers.asSuperuser(servers.standbyUrl(), (sql) => sql.unsafe(statement).simple().execute());
	await servers.asSuperuser(servers.primaryUrl(), (sql) => addProject(sql, credentials.project, credentials.apiKey));
	await onPrimary("insert into company_contacts (bitrix_id, name) select n, 'first' from generate_series(1, 40) n");

	const start = async (url: string) => {
		const service = startServiceProcess('company-contacts', {
			DATABASE_URL: urlAs(url, 'company-contacts', rolePassword),
		});
		return createCompanyContactsClient({ baseUrl: await service.listening(), ...credentials });
	};
	const primary = await start(servers.primaryUrl());
	const standby = await start(servers.standbyUrl());
	const listOf = async (client: typeof primary) => (await client.list()).contacts;
	await expect.poll(() => listOf(standby).catch(() => [])).toHaveLength(40);

	const copy = new Copy();
	for (let n = 1; n <= 20; n++) {
		await onPrimary(`update company_contacts set name = 'update ${n}' where bitrix_id % 20 = ${n}`);
		await onPrimary(`delete from company_contacts where bitrix_id = ${n}`);
		// Of a standby that has not seen this change yet, the client asks again.
		const { value: page } = (await [primary, standby][n % 2]?.changes({ cursor: copy.cursor, limit: 7 }).next()) ?? {};
		if (page !== undefined) copy.apply({ ...page, reset: n === 1 });
	}
	await primary.keepCopy(copy);
	await expect.poll(() => listOf(primary)).toEqual(copy.list);

	await onStandby('select pg_wal_replay_pause()');
	await expect
		.poll(
			async () => await onStandby("select from pg_stat_wal_receiver where pg_get_wal_replay_pause_state() = 'paused'"),
		)
		.toHaveLength(1);
	const before = await listOf(standby);
	const late = new Copy();
	await onPrimary("update company_contacts set name = 'unseen' where bitrix_id > 30");
	await expect.poll(() => primary.keepCopy(copy)).toBe(10);
	await standby.keepCopy(late);
	await expect.poll(() => listOf(primary)).toEqual(copy.list);
	expect(late.list).toEqual(before);
	const { cursor } = copy;
	expect(await standby.keepCopy(copy)).toBe(0);
	expect(copy.cursor).toBe(cursor);

	await onStandby('select pg_wal_replay_resume()');
	await expect.poll(() => standby.keepCopy(late)).toBe(10);
	expect(late.list).toEqual(copy.list);
	expect([copy.begun, late.begun]).toEqual([1, 1]);

	await servers.promoteStandby();
	expect(await standby.keepCopy(copy)).toBe(0);
	await onStandby('delete from company_contacts where bitrix_id = 40');
	await expect.poll(() => standby.keepCopy(copy)).toBeGreaterThan(0);
	await expect.poll(() => listOf(standby)).toEqual(copy.list);
	// A new primary can't know which versions the old one gave out.
	expect(copy.begun).toBe(2);
});
