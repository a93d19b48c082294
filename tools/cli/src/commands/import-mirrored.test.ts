import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import type { TestDatabase } from '@contacts/testing/database.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { describe, expect, test } from 'vitest';
import { runContacts } from '../run.js';
import { contacts, environmentOf, expectOneLine } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

/** A database without contacts, with the mirror of a CRM, and a file of two contacts. */
async function prepare() {
	const database = await ownDatabase();
	await database.sql`update crm_sync_state set configuration = '{"portal": "example.bitrix24.com"}'`;
	const path = join(await temporaryFolder(), 'list.csv');
	await writeFile(path, 'bitrix_id,name\n1,a\n2,b\n');
	return { database, path };
}

/** The number of contacts, and of rows in the audit log that imports have written. */
const written = async ({ sql }: TestDatabase) => {
	const [row] = await sql<[{ contacts: number; audited: number }]>`
		select (select count(*)::int from company_contacts) as contacts,
		       (select count(*)::int from audit_log where action like 'contacts import%') as audited`;
	return row;
};

describe('where a CRM is mirrored', () => {
	test('an import that can ask nobody is refused without --yes, and writes nothing', async () => {
		const { database, path } = await prepare();
		const refused = await contacts(database.url, ['import', path]);
		expectOneLine(refused, 2, /^error: A CRM is mirrored into this database.* say --yes to do it\.$/m);
		expect(await written(database)).toEqual({ contacts: 0, audited: 0 });

		expect(await contacts(database.url, ['import', path, '--yes'])).toMatchObject({ code: 0, stderr: '' });
		expect(await written(database)).toEqual({ contacts: 2, audited: 2 });
	});

	test('a dry run asks nothing', async () => {
		const { database, path } = await prepare();
		const outcome = await contacts(database.url, ['import', path, '--dry-run']);
		expect(outcome).toMatchObject({ code: 0, stderr: '' });
	});

	test.each([
		['n', { code: 1, contacts: 0, audited: 0 }],
		['y', { code: 0, contacts: 2, audited: 2 }],
	])('an import on a terminal asks first, and does what the reply says: %s', async (reply, expected) => {
		const { database, path } = await prepare();
		const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
		let shown = '';
		stderr.on('data', (text) => {
			shown += text;
		});
		const ended = runContacts(['import', path], environmentOf(database.url), {
			stdin: Object.assign(stdin, { isTTY: true }),
			stdout: stdout.resume(),
			stderr: Object.assign(stderr, { isTTY: true }),
		});
		await expect.poll(() => shown).toContain('Go on? [y/N]');
		stdin.write(`${reply}\r`);
		expect({ code: await ended, ...(await written(database)) }).toEqual(expected);
	});
});
