import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database as db, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { openDatabase } from '../database/database.js';
import { urlAs } from '../database/roles.js';
import { openStatePoll } from '../database/state-poll.js';
import { type KeyRing, openKeyRing } from './key-ring.js';

const applicationName = 'key uses';

/** The key ring of a service. It stores the uses of keys when the test calls `flushUses`. */
async function open(): Promise<KeyRing> {
	const url = urlAs(db.url, 'company-contacts', rolePassword);
	const database = openDatabase({ url, applicationName, poolSize: 1 });
	onTestFinished(() => database.close());
	const poll = openStatePoll({ url, applicationName: 'poll', watched: ['keys'] });
	onTestFinished(() => poll.close());
	const ring = await openKeyRing({ poll, database, service: 'company-contacts' }, () => false);
	onTestFinished(() => ring.stop());
	return ring;
}

/** The projects with a key whose last use is stored. */
async function used(): Promise<string[]> {
	const rows = await db.sql<{ code: string }[]>`
		select p.code from api_key_uses u join api_keys k on k.id = u.key_id join projects p on p.id = k.project_id order by 1`;
	return rows.map(({ code }) => code);
}

const keyOf = (project: string) => db.sql`project_id = (select id from projects where code = ${project})`;

test('a key that was deleted by hand does not prevent storing the uses of other keys', async () => {
	for (const code of ['stays', 'vanishes']) await addProject(db.sql, code, `${code}-key`);
	const ring = await open();
	for (const code of ['stays', 'vanishes']) expect(ring.find(code, `${code}-key`)?.code).toBe(code);
	await db.sql`delete from api_keys where ${keyOf('vanishes')}`;
	await ring.flushUses();
	expect(await used()).toEqual(['stays']);
});

test('when a key is deleted while uses are being stored, those of the other keys are stored by the next attempt', async () => {
	for (const code of ['waits', 'vanishing']) await addProject(db.sql, code, `${code}-key`);
	const ring = await open();
	for (const code of ['waits', 'vanishing']) expect(ring.find(code, `${code}-key`)?.code).toBe(code);
	const other = await db.sql.reserve();
	await other`begin`;
	await other`delete from api_keys where ${keyOf('vanishing')}`;
	const flushed = ring.flushUses();
	// The statement still sees the key, and waits for the deletion to commit.
	await expect
		.poll(
			() => db.sql`
				select from pg_stat_activity
				where datname = current_database() and application_name = ${applicationName} and wait_event_type = 'Lock'`,
		)
		.toHaveLength(1);
	await other`commit`;
	other.release();
	await flushed;
	await ring.flushUses();
	expect(await used()).toContain('waits');
});
