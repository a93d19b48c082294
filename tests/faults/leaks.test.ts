import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Sql } from '@contacts/common/database/client.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { setUpRoles, urlAs } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { gatewayConfig, withoutRate } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { exchange } from '@contacts/testing/raw-http.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { canaries, formsOf } from './canaries.js';

const folder = sharedFolder();
let server: LocalPostgres;
let sql: Sql;
let personal: RunningService;
let company: RunningService;
let gateway: RunningNginx;
const responses: string[] = [];

beforeAll(async () => {
	server = await startLocalPostgres({
		dataDirectory: join(folder, 'postgres'),
		password: canaries.password,
		logFile: join(folder, 'postgres.log'),
		// The most verbose log that somebody may configure who looks for a slow statement.
		settings: {
			fsync: 'off',
			log_statement: 'all',
			log_min_duration_statement: '0',
			log_min_messages: 'debug2',
			log_connections: 'on',
		},
	});
	const users = ['personal-contacts', 'company-contacts', 'crm-sync', 'operator'];
	await setUpRoles(server.url('postgres'), Object.fromEntries(users.map((user) => [user, canaries.password])));
	await migrate(server.url('postgres'));
	sql = postgres(server.url('postgres'), { max: 2, fetch_types: false, onnotice: () => undefined });
	await addProject(sql, 'canary', canaries.key);
	await sql`insert into company_contacts (bitrix_id, phone, name) values (1, ${canaries.phone}, ${canaries.name})`;
	const environment = (name: 'personal-contacts' | 'company-contacts') => ({
		DATABASE_URL: urlAs(server.url('postgres'), name, canaries.password),
		LOG_LEVEL: 'trace',
		TRUST_PROXY: 'loopback',
	});
	personal = await startService('personal-contacts', environment('personal-contacts'));
	company = await startService('company-contacts', environment('company-contacts'));
	gateway = await startNginx(gatewayConfig(new URL(company.url).host, withoutRate));
});
afterAll(async () => {
	await gateway?.stop();
	await Promise.all([personal?.stop(), company?.stop()]);
	await sql?.end();
	await server?.stop();
});

/** Sends bytes unchanged and keeps every response, except a valid list, which consists of such data. */
async function send(url: string, bytes: string): Promise<number[]> {
	const all = await exchange(url, Buffer.from(bytes));
	for (const { status, headers, body } of all) {
		responses.push(JSON.stringify([...headers]));
		if (status !== 200) responses.push(body.toString());
	}
	return all.map(({ status }) => status);
}

const personalPath = '/api/personal_contacts';
const listPath = '/api/company_contacts.list';
const right = `project=canary&api_key=${encodeURIComponent(canaries.key)}`;
const get = (query: string) => `GET ${listPath}?${right}${query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`;
const contact = (chatId: number, more: object = {}) =>
	JSON.stringify({
		...{ chat_id: chatId, username: canaries.username, name: canaries.name, birth_date: canaries.birthDate },
		...more,
	});
const post = (query: string, body: string, lines = 'Content-Type: application/json\r\n') =>
	`POST ${personalPath}?${query} HTTP/1.1\r\nHost: a\r\n${lines}Connection: close\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

test('sends secrets in requests of every kind, to the services and through the gateway', async () => {
	const values = Object.values(canaries).flatMap((value) => {
		const octets = [...Buffer.from(value)].map((byte) => `%${byte.toString(16)}`).join('');
		return [encodeURIComponent(value), octets];
	});
	for (const value of values) {
		const queries = [`project=canary&api_key=${value}`, `project=${value}&api_key=${value}`, `api%5Fkey=${value}`];
		queries.push(`${right}&company_id=${value}&phone=${value}`, `${right}&${value}=1&company_id[]=${value}`);
		for (const query of queries) {
			for (const target of [
				`${listPath}?${query}`,
				`${personalPath}?${query}`,
				`/${value}?${query}`,
				`/docs/x?${query}`,
				`//%zz?${query}`,
			]) {
				for (const [url, method] of [
					[personal.url, 'POST'],
					[company.url, 'GET'],
					[gateway.url, 'GET'],
					[gateway.url, 'DELETE'],
					[gateway.url, 'TRACE'],
				] as const) {
					const lines = `Referer: http://a${target}\r\nUser-Agent: ${value}\r\nCookie: ${value}\r\nX-Request-Id: ${value}\r\nX-Forwarded-For: ${value}\r\n`;
					await send(url, `${method} ${target} HTTP/1.1\r\nHost: ${value}\r\n${lines}Connection: close\r\n\r\n`);
				}
			}
		}
		for (const url of [personal.url, company.url, gateway.url]) {
			await send(url, `${value} /${value} HTTP/1.1\r\n\r\n`);
			await send(url, `GET /?${value} HTTP/7.7\r\n${value}\r\n\r\n`);
			await send(url, `GET /?api_key=${value}${'x'.repeat(40_000)} HTTP/1.1\r\n\r\n`);
		}
	}
	expect(responses.length).toBeGreaterThan(500);
});

test('sends secrets in bodies that are saved, refused and broken', async () => {
	expect(await send(personal.url, post(right, contact(1)))).toEqual([200]);
	expect(await send(personal.url, post(right, contact(2, { name: [canaries.name] })))).toEqual([400]);
	expect(
		await send(personal.url, post(right, contact(3, { [canaries.name]: 1, username: `${canaries.username}\0` }))),
	).toEqual([400]);
	expect(await send(personal.url, post(right, contact(4, { birth_date: `${canaries.birthDate}T` })))).toEqual([400]);
	expect(await send(personal.url, post(right, contact(5).slice(0, -1)))).toEqual([400]);
	expect(await send(personal.url, post(right, contact(6), `Content-Type: ${canaries.username}\r\n`))).toEqual([415]);
	expect(await send(personal.url, post(right, contact(7).padEnd(20_000)))).toEqual([413]);
	expect(await send(personal.url, post('project=canary&api_key=wrong', contact(8)))).toEqual([401]);
});

test('sends secrets in statements that fail', async () => {
	// A violated constraint, whose error detail has the row, and a duplicate row, whose detail has the key.
	await sql`alter table personal_contacts add constraint refused check (chat_id <> 20)`;
	await sql`create unique index refused_twice on personal_contacts (username) where chat_id > 20`;
	for (const chatId of [20, 21, 22]) {
		expect(await send(personal.url, post(right, contact(chatId)))).toEqual([chatId === 21 ? 200 : 500]);
	}
	await sql`alter table company_contacts rename to company_contacts_away`;
	expect(await send(company.url, get('&company_id=77'))).toEqual([500]);
	await sql`alter table company_contacts_away rename to company_contacts`;
});

test('sends secrets to processes that end during a request, and while the database goes down', async () => {
	const session = await sql.reserve();
	await session`begin`;
	await session`lock table personal_contacts in access exclusive mode`;
	const waiting = send(personal.url, post(right, contact(30)));
	await expect.poll(() => sql`select from pg_stat_activity where wait_event_type = 'Lock'`).toHaveLength(1);
	await personal.stop('SIGABRT');
	await waiting;
	await session`rollback`;
	session.release();
	await sql`select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and usename = 'company_contacts_service'`;
	for (const { url } of [company, gateway]) await send(url, get('&company_id=9'));
	responses.push(await (await fetch(`${company.url}/metrics`)).text());
	await company.stop('SIGSEGV');
	// The gateway cannot reach a service.
	expect(await send(gateway.url, get(''))).toEqual([503]);
});

test('no secret is in any log, response, metric or final output, in any encoding', async () => {
	const heard = {
		responses: responses.join('\n'),
		'personal-contacts': personal.output(),
		'company-contacts': company.output(),
		"nginx's access log": gateway.accessLog(),
		"nginx's error log": gateway.errorLog() + gateway.output(),
		"PostgreSQL's log": readFileSync(join(folder, 'postgres.log'), 'utf8')
			// This test itself wrote these, as literals or in files that it made.
			.replaceAll(/^.*insert into company_contacts.*$/gm, ''),
	};
	const leaks: string[] = [];
	for (const [where, text] of Object.entries(heard)) {
		expect(text.length).toBeGreaterThan(where.startsWith("nginx's error") ? -1 : 1000);
		const lower = text.toLowerCase();
		for (const [what, value] of Object.entries(canaries)) {
			for (const [form, hidden] of Object.entries(formsOf(value))) {
				if (lower.includes(hidden.toLowerCase())) leaks.push(`${what} in ${where}, ${form}`);
			}
		}
	}
	expect(leaks).toEqual([]);
	console.log(
		Object.entries(heard)
			.map(([where, text]) => `${where}: ${text.length} characters`)
			.join('; '),
	);
});
