import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { service as company } from '@contacts/company-contacts/app.js';
import { service as personal } from '@contacts/personal-contacts/app.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { pageAt } from '../docs/pages.js';

const key = 'a key +/ü&';
const partners = 'docs/partners.md';
const bot = 'docs/bot.md';
let companyApp: TestApp;
let personalApp: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', key);
	await database.sql`insert into company_contacts (bitrix_id, name) select n, 'Ann' from generate_series(1, 2345) n`;
	[companyApp, personalApp] = await Promise.all([
		startTestApp(company, database.url),
		startTestApp(personal, database.url),
	]);
});
afterAll(async () => {
	await Promise.all([companyApp?.close(), personalApp?.close()]);
});

/** The shell command that runs the file `sample`, by the language of a guide's block. */
const languages: Record<string, string> = {
	python: 'python3 sample',
};

interface Sample {
	page: string;
	language: string;
	/** Where it runs, and what it stores stays. Default: an empty folder. */
	folder?: string;
}

/** Runs a guide's sample with another address, project and key, and with waits that are ten times shorter. */
async function run({ page, language, folder }: Sample, url: string, apiKey = key) {
	const sample = pageAt(page).blocks.find((block) => block.language === language);
	const text = String(sample?.text)
		.replace(/http:\/\/127\.0\.0\.1:300[01]/, url)
		.replace(/(["'])demo\1/, '$1partner$1')
		.replace(/(["'])demo-key\1/, `$1${apiKey}$1`)
		.replace('sent_at + 6 ', 'sent_at + 0.6 ');
	const cwd = folder ?? (await temporaryFolder());
	await writeFile(join(cwd, 'sample'), text);
	const env = { PATH: `${dirname(process.execPath)}:${process.env.PATH}`, HOME: cwd };
	return promisify(execFile)('bash', ['-c', languages[language] ?? ''], { cwd, env }).then(
		({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
		(error: { code: number; stdout: string; stderr: string }) => error,
	);
}

/** A server in front of an app whose first response is a 502 with HTML, and which breaks the second connection. */
async function startFlakyGateway(app: TestApp): Promise<{ url: string; requests: () => number }> {
	let requests = 0;
	const gateway = createServer((request, response) => {
		requests++;
		if (requests === 1) response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>502 Bad Gateway</h1>');
		else if (requests === 2) request.socket.destroy();
		else {
			const { method, headers } = request;
			request.pipe(
				httpRequest(`${app.url}${request.url}`, { method, headers }, (forwarded) => forwarded.pipe(response)),
			);
		}
	});
	onTestFinished(() => void gateway.close());
	gateway.listen(0, '127.0.0.1');
	await once(gateway, 'listening');
	const { port } = gateway.address() as AddressInfo;
	return { url: `http://127.0.0.1:${port}`, requests: () => requests };
}

describe('the sample of a copy', () => {
	const sample = { page: partners, language: 'python' };

	test('copies all contacts, and continues after a restart', async () => {
		const folder = await temporaryFolder();
		expect(await run({ ...sample, folder }, companyApp.url)).toEqual({
			code: 0,
			stdout: '2345 contacts\n',
			stderr: '',
		});
		await database.sql`delete from company_contacts where bitrix_id <= 5`;
		await database.sql`insert into company_contacts (bitrix_id, name) values (9001, 'Ben')`;
		onTestFinished(async () => {
			await database.sql`delete from company_contacts where bitrix_id = 9001`;
			await database.sql`insert into company_contacts (bitrix_id, name) select n, 'Ann' from generate_series(1, 5) n`;
		});
		const expected = { code: 0, stdout: '2341 contacts\n', stderr: '' };
		await expect.poll(() => run({ ...sample, folder }, companyApp.url)).toEqual(expected);
		expect(companyApp.log.filter((line) => line.includes('company_contacts.changes')).length).toBeGreaterThan(0);
	});

	test('starts again after a 410', async () => {
		const folder = await temporaryFolder();
		await run({ ...sample, folder }, companyApp.url);
		await database.sql`select begin_company_contacts_epoch()`;
		const again = await run({ ...sample, folder }, companyApp.url);
		expect(again).toEqual({ code: 0, stdout: '2345 contacts\n', stderr: '' });
	});

	test('keeps the copy that it has while a new one can’t be completed', async () => {
		const folder = await temporaryFolder();
		await run({ ...sample, folder }, companyApp.url);
		const gateway = createServer(({ url }, response) => {
			response.writeHead(url?.includes('cursor') ? 410 : 404, { 'content-type': 'application/problem+json' }).end('{}');
		});
		onTestFinished(() => void gateway.close());
		gateway.listen(0, '127.0.0.1');
		await once(gateway, 'listening');
		const { port } = gateway.address() as AddressInfo;
		expect((await run({ ...sample, folder }, `http://127.0.0.1:${port}`)).code).toBe(1);
		const count = `import sqlite3; print(sqlite3.connect("contacts.db").execute("select count(*) from contacts").fetchone()[0])`;
		expect((await promisify(execFile)('python3', ['-c', count], { cwd: folder })).stdout).toBe('2345\n');
		expect((await run({ ...sample, folder }, companyApp.url)).stdout).toBe('2345 contacts\n');
	});

	test('waits when the service says so', async () => {
		const environment = { RATE_LIMIT_BURST: '1', RATE_LIMIT_PER_SECOND: '1' };
		const limited = await startTestApp(company, database.url, { environment });
		onTestFinished(() => limited.close());
		expect(await run(sample, limited.url)).toEqual({ code: 0, stdout: '2345 contacts\n', stderr: '' });
		expect(limited.log.join('')).toContain('"status":429');
	});

	test('repeats a request after a 502 with HTML and after a broken connection', async () => {
		const gateway = await startFlakyGateway(companyApp);
		expect(await run(sample, gateway.url)).toEqual({ code: 0, stdout: '2345 contacts\n', stderr: '' });
		expect(gateway.requests()).toBe(5);
	});
});

describe('the sample of the bot', () => {
	const sample = { page: bot, language: 'python' };

	test('saves the user', async () => {
		expect(await run(sample, personalApp.url)).toEqual({ code: 0, stdout: 'saved\n', stderr: '' });
		const [saved] = await database.sql`select name from personal_contacts where chat_id = 5550004`;
		expect(saved).toEqual({ name: 'Ivan Petrov' });
		await database.sql`delete from personal_contacts`;
	});

	test('repeats a request after a 502 with HTML and after a broken connection', async () => {
		const gateway = await startFlakyGateway(personalApp);
		expect(await run(sample, gateway.url)).toEqual({ code: 0, stdout: 'saved\n', stderr: '' });
		expect(gateway.requests()).toBe(3);
	});
});

describe.each([
	[partners, 'python', () => companyApp],
	[bot, 'python', () => personalApp],
] as const)('the sample of %s in %s', (page, language, app) => {
	test('fails with the code of the error, and without the key', async () => {
		const { code, stdout, stderr } = await run({ page, language }, app().url, 'wrong-canary');
		expect(code).not.toBe(0);
		expect(stdout + stderr).toMatch(/unauthorized\W+request_id\W+[0-9a-f-]{36}/);
		expect(stdout + stderr).not.toContain('canary');
	});

	test('shows no key when nothing responds', async () => {
		const closed = await startTestApp(company, database.url);
		await closed.close();
		const { code, stdout, stderr } = await run({ page, language }, closed.url, 'canary');
		expect(code).not.toBe(0);
		expect(stdout + stderr).toContain('no response');
		expect(stdout + stderr).not.toContain('canary');
	});
});
