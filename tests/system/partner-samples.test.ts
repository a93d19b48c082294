import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { service } from '@contacts/company-contacts/app.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { pageAt, root } from '../docs/pages.js';

const key = 'a key +/ü&';
let app: TestApp;
/** Go's build cache, shared by all tests of this file. */
let cache: string;

test.beforeAll(async () => {
	cache = await mkdtemp(join(tmpdir(), 'contacts-samples-'));
	await addProject(database.sql, 'partner', key);
	await database.sql`insert into company_contacts (bitrix_id, name) select n, 'Ann' from generate_series(1, 2345) n`;
	app = await startTestApp(service, database.url);
});
afterAll(async () => {
	await app?.close();
	if (cache) await rm(cache, { recursive: true, force: true });
});

/** The shell command that runs the file `sample`, by the language of the guide's block. */
const languages: Record<string, string> = {
	python: 'python3 sample',
	php: 'php sample',
	go: 'mv sample sample.go && go run sample.go',
	ts: `mv sample sample.mts && '${join(root, 'node_modules/.bin/tsc')}' --strict --target es2023 --module nodenext --lib es2023,dom --types '' sample.mts && node sample.mjs`,
};

/** Runs the guide's sample of a language, with only the address, the project and the key replaced. */
async function run(language: string, url: string, apiKey = key) {
	const sample = pageAt('docs/partners.md').blocks.find((block) => block.language === language);
	const text = String(sample?.text)
		.replace('http://127.0.0.1:3000', url)
		.replace(/(["'])demo\1/, '$1partner$1')
		.replace(/(["'])demo-key\1/, `$1${apiKey}$1`);
	const folder = await temporaryFolder();
	await writeFile(join(folder, 'sample'), text);
	const node = dirname(process.execPath);
	const env = { PATH: `${node}:${process.env.PATH}`, HOME: folder, GOCACHE: join(cache, 'go'), GOTOOLCHAIN: 'local' };
	return promisify(execFile)('bash', ['-c', languages[language] ?? ''], { cwd: folder, env }).then(
		({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
		(error: { code: number; stdout: string; stderr: string }) => error,
	);
}

describe.each(Object.keys(languages))('the sample in %s', (language) => {
	test('copies all contacts, page by page', async () => {
		expect(await run(language, app.url)).toEqual({ code: 0, stdout: '2345 contacts\n', stderr: '' });
	});

	test('waits when the service says so', async () => {
		const environment = { RATE_LIMIT_BURST: '1', RATE_LIMIT_PER_SECOND: '1' };
		const limited = await startTestApp(service, database.url, { environment });
		onTestFinished(() => limited.close());
		expect(await run(language, limited.url)).toEqual({ code: 0, stdout: '2345 contacts\n', stderr: '' });
		expect(limited.log.join('')).toContain('"status":429');
	});

	test('fails with the code of the error, and without the key', async () => {
		const { code, stdout, stderr } = await run(language, app.url, 'wrong-canary');
		expect(code).not.toBe(0);
		expect(stdout + stderr).toMatch(/unauthorized\W+request_id\W+[0-9a-f-]{36}/);
		expect(stdout + stderr).not.toContain('canary');
	});

	test('repeats a request after a 502 with HTML and after a broken connection', async () => {
		let requests = 0;
		const gateway = createServer((request, response) => {
			requests++;
			if (requests === 1) response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>502 Bad Gateway</h1>');
			else if (requests === 2) request.socket.destroy();
			else get(`${app.url}${request.url}`, (forwarded) => forwarded.pipe(response));
		});
		onTestFinished(() => void gateway.close());
		gateway.listen(0, '127.0.0.1');
		await once(gateway, 'listening');
		const { port } = gateway.address() as AddressInfo;
		expect(await run(language, `http://127.0.0.1:${port}`)).toEqual({ code: 0, stdout: '2345 contacts\n', stderr: '' });
		expect(requests).toBe(5);
	});
});

test('no sample shows the key when nothing responds', async () => {
	const closed = await startTestApp(service, database.url);
	await closed.close();
	const runs = await Promise.all(Object.keys(languages).map((language) => run(language, closed.url, 'canary')));
	for (const { code, stdout, stderr } of runs) {
		expect(code).not.toBe(0);
		expect(stdout + stderr).toContain('no response');
		expect(stdout + stderr).not.toContain('canary');
	}
});
