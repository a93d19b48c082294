import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { enteredFiles } from '@contacts/testing/entered-files.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { service } from './app.js';

let app: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', 'partner-key');
	app = await startTestApp(service, database.url);
});
afterAll(() => app?.close());

async function get(query = ''): Promise<void> {
	const response = await app.fetch(`/api/company_contacts.list?${query}project=partner&api_key=partner-key`);
	await response.text();
	expect(response.status).toBe(200);
}

/** What you have to read to follow a list: ten files, and five more to the table. */
const fromMemory = [
	'auth/authenticate.ts',
	'http/connections.ts',
	'http/load-shedding.ts',
	'http/representations.ts',
	'http/server.ts',
	'list-cache.ts',
	'list-company-contacts.ts',
	'rate-limit/limit-projects.ts',
	'rate-limit/token-bucket.ts',
	'sandbox/sandbox.ts',
];

test('a list from memory runs code in the listed files only', async () => {
	await get();
	expect(await enteredFiles(get)).toEqual(fromMemory);
});

test('a list from the table runs code in the listed files only', async () => {
	let companyId = 0;
	const toTable = [
		'company-contacts.sql.ts',
		'database/admission.ts',
		'database/database.ts',
		'database/pool.ts',
		'schemas/fields.ts',
	];
	const next = () => {
		companyId++;
		return get(`company_id=${companyId}&`);
	};
	await next();
	expect(await enteredFiles(next)).toEqual([...fromMemory, ...toTable].sort());
});
