import { join } from 'node:path';
import type { TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, test } from 'vitest';
import { contacts } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

/** A database and a backup of it: project one has the live keys 1 to 3 and the revoked key 4, and project two has key 5. */
async function backedUp() {
	const own = await ownDatabase();
	const file = join(await temporaryFolder(), 'contacts.backup');
	const json = async (...args: string[]) => JSON.parse((await contacts(own.url, [...args, '--json'])).stdout);
	for (const project of ['one', 'two']) await contacts(own.url, ['project', 'create', project]);
	for (const project of ['one', 'one', 'one', 'one', 'two']) await contacts(own.url, ['key', 'create', project]);
	await contacts(own.url, ['key', 'revoke', '4', '--yes']);
	expect(await contacts(own.url, ['backup', file])).toMatchObject({ code: 0 });
	const restore = (...more: string[]) => contacts(own.url, ['restore', file, '--replace', '--yes', ...more]);
	return { own, json, restore };
}

const statesOf = async ({ sql }: TestDatabase) =>
	(
		await sql<{ state: string }[]>`
			select concat_ws(' ', p.code, p.disabled_at, k.id, k.revoked_at, k.expires_at) as state
			from projects p join api_keys k on k.project_id = p.id order by k.id`
	).map(({ state }) => state);

test('restore --replace keeps revocations, earlier expiries and disabled projects that are newer than the backup', async () => {
	const { own, json, restore } = await backedUp();
	await contacts(own.url, ['key', 'revoke', '1', '--yes']);
	await contacts(own.url, ['key', 'rotate', '2', '--overlap', '1h']);
	await contacts(own.url, ['project', 'disable', 'two', '--yes']);
	const before = await statesOf(own);
	const outcome = await restore();
	expect(outcome).toMatchObject({ code: 0, stderr: '' });
	expect(outcome.stdout).toMatch(
		/^Restored .+Z\. Kept from before the restore: 1 revoked keys, 1 earlier expiries, 1 disabled projects\.\n$/,
	);
	// The successor of key 2 is not in the backup.
	expect(await statesOf(own)).toEqual(before.slice(0, 5));
	const log = await json('audit');
	expect(log.slice(0, 4)).toMatchObject([
		{ action: 'database restored' },
		{ action: 'project disabled', project: 'two' },
		{ action: 'key expiry changed', key_id: 2 },
		{ action: 'key revoked', key_id: 1 },
	]);
});

test('restore --replace --json counts what it keeps, and keeps nothing for other keys and projects with the same IDs', async () => {
	const { own, restore } = await backedUp();
	const kept = async () => JSON.parse((await restore('--json')).stdout).kept;
	const before = await statesOf(own);
	expect(await kept()).toEqual({ revoked_keys: 0, earlier_expiries: 0, disabled_projects: 0 });
	expect(await statesOf(own)).toEqual(before);
	await contacts(own.url, ['key', 'revoke', '1', '--yes']);
	// Another key and another project with the same IDs.
	await own.sql`update api_keys set hash = sha256('another') where id = 1`;
	await own.sql`update projects set code = 'three', disabled_at = now() where id = 2`;
	expect(await kept()).toEqual({ revoked_keys: 0, earlier_expiries: 0, disabled_projects: 0 });
	expect(await statesOf(own)).toEqual(before);
});
