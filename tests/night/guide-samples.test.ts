import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import {
	createServer,
	request as httpRequest,
	type IncomingMessage,
	type RequestListener,
	type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { service as company } from '@contacts/company-contacts/app.js';
import { service as personal } from '@contacts/personal-contacts/app.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, beforeEach, describe, expect, onTestFinished } from 'vitest';
import { pageAt } from '../docs/pages.js';

const key = 'a key +/ü&';
let companyApp: TestApp;
let personalApp: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', key);
	await database.sql`insert into company_contacts (bitrix_id, name) select n, 'Ann' from generate_series(1, 2345) n`;
	companyApp = await startTestApp(company, database.url);
	personalApp = await startTestApp(personal, database.url);
});
afterAll(() => Promise.all([companyApp?.close(), personalApp?.close()]));

const programs = { python: ['python3', 'sample.py'], js: [process.execPath, 'sample.mjs'] } as const;

interface RunOptions {
	language?: keyof typeof programs;
	apiKey?: string;
	folder?: string;
	/** More lines before the last one, which sends the queue. */
	more?: string;
}

/** Runs a guide's sample with another address, project and key, and with waits that are ten times shorter. */
async function run(
	page: string,
	url: string,
	{ language = 'python', apiKey = key, folder, more = '' }: RunOptions = {},
) {
	const sample = pageAt(page).blocks.find((block) => block.language === language);
	const text = String(sample?.text)
		.replace(/http:\/\/127\.0\.0\.1:300[01]/, url)
		.replace(/(["'])demo\1/, '$1partner$1')
		.replace(/(["'])demo-key\1/, `$1${apiKey}$1`)
		.replace('UNCLEAR = 6 ', 'UNCLEAR = 0.6 ')
		.replace('unclear = 6;', 'unclear = 0.6;')
		.replace(/\n(send_queue|await sendQueue)\(\);?$/, (last) => `\n${more}${last}`);
	const cwd = folder ?? (await temporaryFolder());
	const [program, name] = programs[language];
	await writeFile(join(cwd, name), text);
	return promisify(execFile)(program, [name], { cwd, env: { PATH: process.env.PATH, HOME: cwd } }).then(
		({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
		(error: { code: number; stdout: string; stderr: string }) => error,
	);
}

/** The URL of a server that ends with the test. */
async function serve(listener: RequestListener): Promise<string> {
	const server = createServer(listener).listen(0, '127.0.0.1');
	onTestFinished(() => void server.close());
	await once(server, 'listening');
	return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server in front of an app. Its first response is a 502 that breaks off, the second a 503 of a proxy, and then a connection breaks. */
function startFlakyGateway(app: TestApp): Promise<string> {
	let requests = 0;
	return serve((request, response) => {
		requests++;
		if (requests === 1) response.writeHead(502, { 'content-length': 99 }).write('<h1>', () => request.socket.destroy());
		else if (requests === 2) response.writeHead(503, { 'content-type': 'text/html' }).end('<h1>Try again</h1>');
		else if (requests === 3) request.socket.destroy();
		else forward(app, request, response);
	});
}

function forward({ url }: TestApp, request: IncomingMessage, response: ServerResponse): void {
	const { method, headers } = request;
	request.pipe(httpRequest(`${url}${request.url}`, { method, headers }, (forwarded) => forwarded.pipe(response)));
}

/** What programs in between send, before they pass requests on again. */
const foreign: Record<string, [status: number, headers: Record<string, string>, body: string]> = {
	'a date in Retry-After': [
		503,
		{ 'retry-after': 'Thu, 26 Nov 2026 16:13:32 GMT' },
		'{"code":"overloaded","detail":"x"}',
	],
	'a fraction in Retry-After': [503, { 'retry-after': '1.5' }, '{"code":"overloaded","detail":"x"}'],
	'a 429 with a date': [429, { 'retry-after': 'Thu, 26 Nov 2026 16:13:32 GMT' }, '<h1>Slow down</h1>'],
	'a 200 with a page': [200, { 'content-type': 'text/html' }, '<h1>Sign in</h1>'],
	...Object.fromEntries(
		['[]', 'null', '"cursor"', '{"ok":true,"cursor":"1"}', '{"ok":null}'].map((body) => [
			`a 200 with ${body}`,
			[200, { 'content-type': 'application/json' }, body],
		]),
	),
	'a 204': [204, {}, ''],
	'a 307 that leads nowhere': [307, {}, ''],
	'a 522': [522, {}, '<h1>Timed out</h1>'],
	'a 599': [599, {}, ''],
};

const own = { 'content-type': 'application/problem+json', 'retry-after': '0' };

const printed = (stdout: string) => ({ code: 0, stdout, stderr: '' });

describe('the sample of a copy', () => {
	const page = 'docs/partners.md';

	test('copies all contacts, continues after a restart, and starts again after a 410', async () => {
		const folder = await temporaryFolder();
		expect(await run(page, companyApp.url, { folder })).toEqual(printed('2345 contacts\n'));
		await database.sql`delete from company_contacts where bitrix_id <= 5`;
		await database.sql`insert into company_contacts (bitrix_id, name) values (9001, 'Ben')`;
		onTestFinished(async () => {
			await database.sql`delete from company_contacts where bitrix_id = 9001`;
			await database.sql`insert into company_contacts (bitrix_id, name) select n, 'Ann' from generate_series(1, 5) n`;
		});
		await expect.poll(() => run(page, companyApp.url, { folder })).toEqual(printed('2341 contacts\n'));
		await database.sql`select begin_company_contacts_epoch()`;
		// The service sees the new epoch within a second.
		const logged = async () => {
			expect(await run(page, companyApp.url, { folder })).toEqual(printed('2341 contacts\n'));
			return companyApp.log.join('');
		};
		await expect.poll(logged).toContain('"status":410');
	});

	test('keeps the copy that it has while a new one can’t be completed', async () => {
		const folder = await temporaryFolder();
		// The poll sees the rows of the test before within a second.
		await expect.poll(() => run(page, companyApp.url, { folder })).toEqual(printed('2345 contacts\n'));
		const broken = await serve(({ url }, response) => {
			response.writeHead(url?.includes('cursor') ? 410 : 404, { 'content-type': 'application/problem+json' }).end('{}');
		});
		expect((await run(page, broken, { folder })).code).toBe(1);
		const count = `import sqlite3; print(sqlite3.connect("contacts.db").execute("select count(*) from contacts").fetchone()[0])`;
		expect((await promisify(execFile)('python3', ['-c', count], { cwd: folder })).stdout).toBe('2345\n');
	});

	test('waits when the service says so', async () => {
		const environment = { RATE_LIMIT_BURST: '1', RATE_LIMIT_PER_SECOND: '1' };
		const limited = await startTestApp(company, database.url, { environment });
		onTestFinished(() => limited.close());
		expect(await run(page, limited.url)).toEqual(printed('2345 contacts\n'));
		expect(limited.log.join('')).toContain('"status":429');
	});
});

describe.each([
	['docs/partners.md', 'python', () => companyApp, '2345 contacts\n'],
	['docs/bot.md', 'python', () => personalApp, 'saved\nsaved\n'],
	['docs/bot.md', 'js', () => personalApp, 'saved\nsaved\n'],
] as const)('the sample of %s in %s', (page, language, app, result) => {
	beforeEach(async () => {
		await database.sql`delete from direct_subscriptions`;
		await database.sql`delete from personal_contacts`;
	});

	test('repeats a request after responses of a proxy and after broken connections', async () => {
		expect(await run(page, await startFlakyGateway(app()), { language })).toEqual(printed(result));
	});

	test.each(Object.entries(foreign))('repeats a request after %s', async (_, [status, headers, body]) => {
		let isFirst = true;
		const url = await serve((request, response) => {
			if (!isFirst) return forward(app(), request, response);
			isFirst = false;
			response.writeHead(status, headers).end(body);
		});
		expect(await run(page, url, { language })).toEqual(printed(result));
	});

	test.each(['<h1>Firewall</h1>', '{"code":"forbidden"}'])(
		'ends with the refusal of something in between: %s',
		async (body) => {
			const url = await serve((_, response) => void response.writeHead(403).end(body));
			const { code, stdout, stderr } = await run(page, url, { language });
			expect([code, stdout]).toEqual([1, '']);
			expect(stderr).toContain(`403 ${body}`);
		},
	);

	test('fails without the key, with the code of the error or because nothing responds', async () => {
		const refused = await run(page, app().url, { language, apiKey: 'wrong-canary' });
		const unreachable = await run(page, 'http://127.0.0.1:1', { language, apiKey: 'canary' });
		expect(refused.stdout + refused.stderr).toMatch(/unauthorized\W+request_id\W+[0-9a-f-]{36}/);
		expect(unreachable.stdout + unreachable.stderr).toContain('no response');
		for (const { code, stdout, stderr } of [refused, unreachable]) {
			expect(code).not.toBe(0);
			expect(stdout + stderr).not.toContain('canary');
		}
	});
});

describe.each(['python', 'js'] as const)('the sample of the bot in %s', (language) => {
	const page = 'docs/bot.md';
	const put = (path: string, body: string) => `put(${JSON.stringify(path)}, ${body})\n`;
	const active = language === 'python' ? 'True' : 'true';

	beforeEach(async () => {
		await database.sql`delete from direct_subscriptions`;
		await database.sql`delete from personal_contacts`;
	});

	test.each([
		['application/json', '{"code":503}'],
		['application/problem+json', '{"title":"No code"}'],
	])(
		'waits six seconds after a 503 of something in between, and not as long as that says: %s %s',
		async (type, body) => {
			let isFirst = true;
			const url = await serve((request, response) => {
				if (!isFirst) return forward(personalApp, request, response);
				isFirst = false;
				response.writeHead(503, { 'retry-after': '300', 'content-type': type }).end(body);
			});
			expect(await run(page, url, { language })).toEqual(printed('saved\nsaved\n'));
		},
	);

	test('saves the user and then the report, and what follows for the chat is skipped', async () => {
		const more = put('/api/personal_contacts', '{"chat_id": 5550004, "name": "Later"}');
		expect(await run(page, personalApp.url, { language, more })).toEqual(printed('saved\nsaved\nskipped\n'));
		const rows = await database.sql`select name, started_at is not null as subscribed
			from personal_contacts join direct_subscriptions using (chat_id) where chat_id = 5550004`;
		expect([...rows]).toEqual([{ name: 'Ivan Petrov', subscribed: true }]);
	});

	test('gives up a request that is wrong, and goes on with the next one', async () => {
		const more = put('/api/direct_subscriptions', `{"chat_id": 1, "active": ${active}, "at": "never"}`);
		const outcome = await run(page, personalApp.url, { language, more });
		expect(outcome).toEqual({ ...printed('saved\nsaved\n'), stderr: expect.stringContaining('given up: 400') });
	});

	test('keeps the queue when nothing responds, and sends it in its order afterwards', async () => {
		const folder = await temporaryFolder();
		expect(await run(page, 'http://127.0.0.1:1', { language, folder })).toMatchObject({ stdout: '' });
		const again = await run(page, personalApp.url, { language, folder });
		// The requests of both runs: those of the second one come after the report of the first one.
		expect(again).toEqual(printed('saved\nsaved\nskipped\nsaved\n'));
	});

	test('waits after a restart for what was sent before', async () => {
		const folder = await temporaryFolder();
		const sent: number[] = [];
		const url = await serve((request, response) => {
			sent.push(performance.now());
			// It ends at once, and its queue says that the next request may be sent now.
			if (sent.length === 1) return void response.writeHead(503, own).end('{"code":"overloaded"}');
			if (sent.length === 2) return void response.writeHead(401, own).end('{"code":"unauthorized"}');
			forward(personalApp, request, response);
		});
		expect((await run(page, url, { language, folder })).code).toBe(1);
		const begun = performance.now();
		await run(page, url, { language, folder });
		expect(Number(sent[2]) - begun).toBeGreaterThan(600);
	});

	test('sends one request at a time for each chat, while another chat that waits stops nobody', async () => {
		const order: string[] = [];
		let running = 0;
		const gateway = await serve(async (request, response) => {
			const body = JSON.parse(await text(request));
			order.push(`${body.chat_id} ${request.url?.split(/[/?]/)[2]}`);
			expect(++running).toBe(1);
			const isFirst = order.length === 1;
			setImmediate(() => {
				running--;
				if (isFirst) request.socket.destroy();
				else response.end('{"ok":"saved"}');
			});
		});
		const more = put('/api/personal_contacts', '{"chat_id": 2}');
		expect(await run(page, gateway, { language, more })).toEqual(printed('saved\nsaved\nsaved\n'));
		expect(order).toEqual([
			'5550004 personal_contacts',
			'2 personal_contacts',
			'5550004 personal_contacts',
			'5550004 direct_subscriptions',
		]);
	});
});
