import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createCompanyContactsClient, createPersonalContactsClient } from '@contacts/client';
import { addProject } from '@contacts/testing/app.js';
import type { RunningService } from '@contacts/testing/services.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { startService } from '../services.js';

const credentials = { project: 'partner', apiKey: 'partner key +/ü' };
let company: RunningService;
let personal: RunningService;

test.beforeAll(async () => {
	await addProject(database.sql, credentials.project, credentials.apiKey);
	await database.sql`
		insert into company_contacts (bitrix_id, phone, company_ids, name)
		values (1002, '+442079460101', '{1}', 'Alice Carter'), (1007, '+12025550103', '{11}', 'Chen Wei')`;
	[company, personal] = await Promise.all([startService('company-contacts'), startService('personal-contacts')]);
});
afterAll(() => Promise.all([company?.stop(), personal?.stop()]));

/** Runs an example of the client as a reader would. @returns what it prints */
async function example(name: string, url: string, { apiKey = credentials.apiKey, cwd = process.cwd() } = {}) {
	const program = fileURLToPath(new URL(`../../packages/client/dist/examples/${name}.js`, import.meta.url));
	const env = { CONTACTS_URL: url, CONTACTS_PROJECT: credentials.project, CONTACTS_KEY: apiKey };
	const { stdout, stderr, code } = await promisify(execFile)(process.execPath, [program], { env, cwd }).then(
		(printed) => ({ ...printed, code: 0 }),
		(error: { stdout: string; stderr: string; code: number }) => error,
	);
	return { code, lines: (stdout + stderr).trimEnd().split('\n') };
}

test("the partner's example lists the contacts of a company", async () => {
	expect(await example('partner', company.url)).toEqual({
		code: 0,
		lines: ['Chen Wei: +12025550103'],
	});
	expect(await example('partner', company.url, { apiKey: 'wrong' })).toEqual({
		code: 1,
		lines: ['Check the project and the key.'],
	});
});

test("the bot backend's example saves a user", async () => {
	expect(await example('bot-backend', personal.url)).toEqual({ code: 0, lines: ['The user was saved.'] });
	const [row] = await database.sql`select username, birth_date::text from personal_contacts where chat_id = 5550001`;
	expect(row).toEqual({ username: 'ivan', birth_date: '1990-05-17' });
	const client = createPersonalContactsClient({ baseUrl: personal.url, ...credentials });
	await client.setDirectSubscription({ chat_id: 5550001, active: true });
	expect((await example('bot-backend', personal.url)).lines).toEqual(['The chat has an active subscription.']);
	await client.setDirectSubscription({ chat_id: 5550001, active: false, at: '2026-05-17T12:00:00Z' });
	expect((await example('bot-backend', personal.url)).lines).toEqual(['The user was saved.']);
});

test("the copy's example keeps a copy in a file up to date through changes, deletions, a restart and a restore", async () => {
	const cwd = await temporaryFolder();
	const { sql } = database;
	const copied = async () => {
		const { lines } = await example('copy', company.url, { cwd });
		const { contacts } = JSON.parse(await readFile(join(cwd, 'contacts.json'), 'utf8')) as {
			contacts: { id: number }[];
		};
		const listed = await createCompanyContactsClient({ baseUrl: company.url, ...credentials }).list();
		expect(contacts.sort((one, other) => one.id - other.id)).toEqual(listed.contacts);
		return lines;
	};
	/** Waits until the service knows what was written a moment ago. */
	const heard = (lines: string[]) => expect.poll(copied).toEqual(lines);
	expect(await copied()).toEqual(['2 changes, 2 contacts']);
	expect(await copied()).toEqual(['0 changes, 2 contacts']);
	await sql`insert into company_contacts (bitrix_id, name) select n, 'many' from generate_series(2001, 3500) n`;
	await heard(['1500 changes, 1502 contacts']);
	await sql`delete from company_contacts where bitrix_id > 2000`;
	await heard(['1500 changes, 2 contacts']);
	await sql`select begin_company_contacts_epoch()`;
	await heard(['2 changes, 2 contacts']);
});
