import { PassThrough } from 'node:stream';
import { urlAs } from '@contacts/common/database/roles.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { runContacts } from '../run.js';
import { contacts, environmentOf, expectOneLine } from '../testing/command.js';

const url = () => urlAs(database.url, 'privacy', rolePassword);
const run = (...args: string[]) => contacts(url(), ['person', ...args]);

const addContact = (bitrixId: number, phone: string) => database.sql`
	insert into company_contacts (bitrix_id, phone, company_ids, name) values (${bitrixId}, ${phone}, '{7,1}', 'Boris')`;

/** The newest audit row. */
async function lastAudit() {
	const [row] = await database.sql`select action, role, details from audit_log order by id desc limit 1`;
	return row;
}

const contactsWith = (phone: string) => database.sql`select from company_contacts where phone = ${phone}`;

test('person erase of a company contact points to the CRM where one is mirrored, and deletes nothing', async () => {
	await addContact(4, '+12025550104');
	await database.sql`update crm_sync_state set configuration = '{"portal": "example.bitrix24.com"}'`;
	onTestFinished(async () => void (await database.sql`update crm_sync_state set configuration = null`));
	for (const query of [
		['--phone', '+12025550104'],
		['--bitrix', '4'],
		['--bitrix', '4', '--yes'],
	])
		expectOneLine(await run('erase', ...query), 1, /in the CRM: delete contact 4 in Bitrix24/);
	expect(await contactsWith('+12025550104')).toHaveLength(1);
});

test('person erase of a company contact deletes it for good where no CRM is mirrored, and the change feed has the deletion', async () => {
	await addContact(5, '+12025550105');
	await addContact(6, '+12025550105');
	await addContact(7, '+12025550107');
	const refused = await run('erase', '--phone', '+12025550105');
	expectOneLine(refused, 2, 'Company contact 5, 6 will be deleted for good. Nobody can be asked here: say --yes');
	const outcome = await run('erase', '--phone', '+12025550105', '--yes');
	expect(outcome).toMatchObject({ code: 0, stdout: 'Deleted for good: company contact 5, 6.\n' });
	expect(outcome.stderr).toContain('an import of a file that has it saves it again');
	expect(outcome.stdout + outcome.stderr).not.toMatch(/CRM|Bitrix24/);
	expect(await contactsWith('+12025550105')).toHaveLength(0);
	expect(await contactsWith('+12025550107')).toHaveLength(1);
	const audit = await lastAudit();
	expect(audit).toMatchObject({
		action: 'person erased',
		role: 'contacts_privacy',
		details: { company_contacts: 2 },
	});
	expect(JSON.stringify(audit)).not.toContain('2025550105');
	const tombstones = await database.sql<{ bitrix_id: number }[]>`
		select bitrix_id::int from company_contacts_changes where deleted_at is not null order by 1`;
	expect(tombstones.map(({ bitrix_id }) => bitrix_id)).toEqual([5, 6]);
});

/** Erases on a terminal, and says yes to the question once `meanwhile` is done. `recorded` is the number of new audit rows. */
async function eraseAfter(query: readonly string[], meanwhile: () => PromiseLike<unknown>) {
	const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
	let output = '';
	for (const stream of [stdout, stderr])
		stream.on('data', (text) => {
			output += text;
		});
	const auditRows = async () => (await database.sql`select from audit_log`).length;
	const before = await auditRows();
	const code = runContacts(['person', 'erase', ...query], environmentOf(url()), {
		stdin: Object.assign(stdin, { isTTY: true }),
		stdout,
		stderr: Object.assign(stderr, { isTTY: true }),
	});
	await expect.poll(() => output).toContain('Go on? [y/N]');
	await meanwhile();
	stdin.write('y\r');
	return { code: await code, output, recorded: (await auditRows()) - before };
}

test('person erase deletes nothing and points to the CRM when a synchroniser starts while the question is asked', async () => {
	await addContact(8, '+12025550108');
	onTestFinished(async () => void (await database.sql`update crm_sync_state set configuration = null`));
	const { code, output, recorded } = await eraseAfter(
		['--bitrix', '8'],
		() => database.sql`update crm_sync_state set configuration = '{"portal": "example.bitrix24.com"}'`,
	);
	expect(code).toBe(1);
	expect(output).toMatch(/in the CRM: delete contact 8 in Bitrix24/);
	expect(output).not.toContain('Deleted for good');
	expect(await contactsWith('+12025550108')).toHaveLength(1);
	expect(recorded).toBe(0);
});

test('person erase says that nothing was deleted when the chat is erased while the question is asked', async () => {
	await database.sql`insert into direct_subscriptions (chat_id, started_at) values (400, now())`;
	const { code, output, recorded } = await eraseAfter(
		['--chat', '400'],
		() => database.sql`delete from direct_subscriptions where chat_id = 400`,
	);
	expect(code).toBe(1);
	expect(output).toContain('Nothing was deleted: nothing is stored about chat 400 any more.');
	expect(output).not.toContain('Deleted:');
	expect(recorded).toBe(0);
});

test('person erase waits for a report on the chat, and deletes what the report has saved', async () => {
	await database.sql`insert into direct_subscriptions (chat_id, started_at) values (401, now() - interval '1 day')`;
	const report = await database.sql.reserve();
	await report`begin`;
	await report`update direct_subscriptions set ended_at = now(), reported_at = now() where chat_id = 401`;
	const erased = run('erase', '--chat', '401', '--yes');
	const waiting = () => database.sql`
		select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
	await expect.poll(waiting).toHaveLength(1);
	await report`commit`;
	report.release();
	expect(await erased).toMatchObject({ code: 0, stdout: 'Deleted: 0 personal contact, 1 subscription.\n' });
	expect(await database.sql`select from direct_subscriptions where chat_id = 401`).toHaveLength(0);
});
