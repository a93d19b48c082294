import { join } from 'node:path';
import { hashKey } from '@contacts/common/auth/api-key.js';
import { insertKey, insertProject, setProjectEnabled } from '@contacts/common/auth/projects.sql.js';
import { roles } from '@contacts/migrations/roles.js';
import { addProject, revokeKeysOf } from '@contacts/testing/app.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { exchange } from '@contacts/testing/raw-http.js';
import { readRights } from '@contacts/testing/rights.sql.js';
import type { RunningService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { read, root } from '../docs/pages.js';
import { startService } from '../services.js';

const page = 'docs/who-may-what.md';
const services = ['personal-contacts', 'company-contacts'] as const;
type Name = (typeof services)[number];
let running: Record<Name, RunningService>;
let gateway: RunningNginx;

test.beforeAll(async () => {
	const { sql } = database;
	await addProject(sql, 'any', 'any-key');
	await addProject(sql, 'other', 'other-key');
	for (const service of services) await addProject(sql, `for-${service}`, `for-${service}-key`, { service });
	await insertProject(sql, 'sandbox', true);
	await insertKey(sql, { project: 'sandbox', hash: hashKey('sandbox-key') });
	await addProject(sql, 'disabled', 'disabled-key');
	await setProjectEnabled(sql, 'disabled', false);
	await addProject(sql, 'expired', 'expired-key', { expiresAt: new Date(Date.now() - 1000) });
	await addProject(sql, 'revoked', 'revoked-key');
	await revokeKeysOf(sql, 'revoked');
	running = {
		'personal-contacts': await startService('personal-contacts'),
		'company-contacts': await startService('company-contacts'),
	};
	gateway = await startNginx(gatewayConfig(new URL(running['company-contacts'].url).host));
});
afterAll(async () => {
	await gateway?.stop();
	await Promise.all(Object.values(running ?? {}).map((service) => service.stop()));
});

/** A table whose rows with the same outcomes are one. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
	const groups = new Map<string, string[]>();
	for (const [name = '', ...outcomes] of rows) {
		const key = outcomes.join(' | ');
		groups.set(key, [...(groups.get(key) ?? []), name]);
	}
	const merged = [...groups].map(([outcomes, names]) => [names.join(', '), outcomes]);
	return [head, head.map(() => '---'), ...merged].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** The status of the response to exactly this target. */
async function statusOf(url: string, method: string, target: string, json = '{"chat_id":1}'): Promise<string> {
	const body = method === 'POST' ? json : '';
	const headers = method === 'POST' ? `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n` : '';
	const request = `${method} ${target} HTTP/1.1\r\nHost: a\r\n${headers}Connection: close\r\n\r\n${body}`;
	const responses = await exchange(url, Buffer.from(request), 10_000);
	return responses.map(({ status }) => status).join();
}

async function databaseRights(): Promise<string> {
	const names = Object.values(roles);
	const rows = await readRights(database.sql, names);
	const tables = [...new Set(rows.map((row) => row.table))].sort();
	const verbs = (name: string, role: string) =>
		rows.find((row) => row.table === name && row.role === role)?.rights.join(', ') ?? '';
	return table(
		['table, sequence or function', ...names.map((role) => `\`${role}\``)],
		tables.map((name) => [`\`${name}\``, ...names.map((role) => verbs(name, role))]),
	);
}

const requests: Record<Name, readonly [method: string, path: string]> = {
	'personal-contacts': ['POST', '/api/personal_contacts'],
	'company-contacts': ['GET', '/api/company_contacts.list'],
};

async function credentials(): Promise<string> {
	const kinds: readonly (readonly [string, string])[] = [
		['a project and its key', 'project=any&api_key=any-key'],
		['a key for personal-contacts only', 'project=for-personal-contacts&api_key=for-personal-contacts-key'],
		['a key for company-contacts only', 'project=for-company-contacts&api_key=for-company-contacts-key'],
		['a sandbox project and its key', 'project=sandbox&api_key=sandbox-key'],
		['nothing', ''],
		['no key', 'project=any'],
		['no project', 'api_key=any-key'],
		['an empty key', 'project=any&api_key='],
		['a wrong key', 'project=any&api_key=wrong'],
		['an unknown project', 'project=unknown&api_key=any-key'],
		['the key of another project', 'project=any&api_key=other-key'],
		['a key given twice', 'project=any&api_key=any-key&api_key=any-key'],
		['a project given twice', 'project=any&project=any&api_key=any-key'],
		['a disabled project', 'project=disabled&api_key=disabled-key'],
		['an expired key', 'project=expired&api_key=expired-key'],
		['a revoked key', 'project=revoked&api_key=revoked-key'],
		['the hash of a key', `project=any&api_key=${hashKey('any-key').toString('hex')}`],
	];
	const rows: string[][] = [];
	for (const [what, query] of kinds) {
		const statuses: string[] = [];
		for (const service of services) {
			const [method, path] = requests[service];
			statuses.push(await statusOf(running[service].url, method, `${path}?${query}`));
		}
		rows.push([what, ...statuses]);
	}
	return table(['credentials', ...services], rows);
}

async function paths(): Promise<string> {
	const good = 'project=any&api_key=any-key';
	const targets: readonly (readonly [string, string, string?])[] = [
		['GET', `/api/company_contacts.list?${good}`],
		['GET', '/api/company_contacts.list'],
		['POST', `/api/company_contacts.list?${good}`],
		['DELETE', `/api/company_contacts.list?${good}`],
		['GET', `/api/company_contacts.changes?${good}`],
		['GET', '/api/company_contacts.changes'],
		['POST', `/api/company_contacts.changes?${good}`],
		['POST', `/api/personal_contacts?${good}`],
		['GET', `/api/personal_contacts?${good}`],
		['POST', `/api/direct_subscriptions?${good}`, '{"chat_id":1,"active":false}'],
		['GET', `/api/direct_subscriptions?${good}`],
		['GET', '/health/live'],
		['GET', '/health/ready'],
		['GET', '/metrics'],
		['POST', '/bitrix24/events'],
		['GET', '/'],
		['GET', '/api'],
		['GET', '/docs/../metrics'],
		['GET', '/docs/%2e%2e/metrics'],
		['GET', '//metrics'],
		['GET', '/%6detrics'],
		['GET', `/api/company_contacts.list/../personal_contacts?${good}`],
	];
	const rows: string[][] = [];
	for (const [method, target, body] of targets) {
		const statuses: string[] = [];
		for (const { url } of [running['personal-contacts'], running['company-contacts'], gateway]) {
			statuses.push(await statusOf(url, method, target, body));
		}
		rows.push([`\`${method} ${target.replace(good, '…')}\``, ...statuses]);
	}
	return table(['request', ...services, 'through the gateway'], rows);
}

test('docs/who-may-what.md shows the access that the services grant', async () => {
	const tables = {
		'Database roles': await databaseRights(),
		Credentials: await credentials(),
		Paths: await paths(),
	};
	let observed = read(page);
	for (const [heading, rows] of Object.entries(tables)) {
		const shown = new RegExp(`(\\n## ${heading}\\n[^|]*)(?:\\|.*\\n)+`);
		expect(observed).toMatch(shown);
		observed = observed.replace(shown, (_, text) => `${text}${rows}\n`);
	}
	await expect(observed).toMatchFileSnapshot(join(root, page));
});
