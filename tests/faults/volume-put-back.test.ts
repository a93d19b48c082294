import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { type RoleUser, roles, setUpRoles, urlAs } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword, withConnection } from '@contacts/testing/database.js';
import { startService } from '@contacts/testing/services.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, onTestFinished, test } from 'vitest';
import { read } from '../docs/pages.js';

test('after a volume was put back a running service serves its lists and keys alone, and once the documented statement was run a cursor from before gets 410', async () => {
	const folder = await temporaryFolder();
	execFileSync('chmod', ['711', folder]);
	const [dataDirectory, copy] = [join(folder, 'data'), join(folder, 'copy')];
	const start = () => startLocalPostgres({ dataDirectory, password: 'test' });
	let server: LocalPostgres = await start();
	onTestFinished(() => server.stop());
	const url = () => server.url('contacts');
	await withConnection(
		server.url('postgres'),
		(sql) => sql`create database contacts template template0 encoding 'UTF8'`,
	);
	const users: readonly (RoleUser | 'owner')[] = ['owner', ...(Object.keys(roles) as RoleUser[])];
	await setUpRoles(url(), Object.fromEntries(users.map((user) => [user, rolePassword])));
	await migrate(urlAs(url(), 'owner', rolePassword));
	await withConnection(url(), async (sql) => {
		await addProject(sql, 'partner', 'partner-key');
		await sql`insert into company_contacts (bitrix_id, name) values (1, 'as copied')`;
	});
	await server.stop();
	execFileSync('cp', ['--archive', dataDirectory, copy]);
	server = await start();

	const proxy = await startTcpProxy(url());
	onTestFinished(() => proxy.close());
	const service = await startService('company-contacts', {
		DATABASE_URL: proxy.through(urlAs(url(), 'company-contacts', rolePassword)),
		RATE_LIMIT_PER_SECOND: '100000',
		RATE_LIMIT_BURST: '100000',
	});
	onTestFinished(() => service.stop());
	const request = async (path: string, project = 'partner') => {
		const sentAt = performance.now();
		const response = await fetch(
			`${service.url}/api/company_contacts.${path}project=${project}&api_key=${project}-key`,
		);
		return { sentAt, status: response.status, text: await response.text() };
	};

	// What the copy does not have. The service keeps all of it in memory.
	await withConnection(url(), async (sql) => {
		await addProject(sql, 'later', 'later-key');
		await sql`update company_contacts set name = 'lost' where bitrix_id = 1`;
	});
	await expect.poll(async () => (await request('list?')).text).toContain('lost');
	await expect.poll(async () => (await request('list?', 'later')).status).toBe(200);
	const { cursor } = JSON.parse((await request('changes?')).text) as { cursor: string };

	const responses: Awaited<ReturnType<typeof request>>[] = [];
	let isRequesting = true;
	const requesting = ['partner', 'later'].map(async (project) => {
		while (isRequesting) {
			responses.push(await request('list?', project), await request('changes?', project));
			await delay(10);
		}
	});
	await server.stop();
	const stoppedAt = performance.now();
	await expect.poll(async () => (await request('list?')).status, { timeout: 10_000 }).toBe(500);
	execFileSync('rm', ['--recursive', dataDirectory]);
	execFileSync('cp', ['--archive', copy, dataDirectory]);
	server = await start();
	// Another change, so that both states have the same version of the contacts and of the keys.
	await withConnection(url(), async (sql) => {
		await addProject(sql, 'other', 'other-key');
		await sql`update company_contacts set name = 'put back' where bitrix_id = 1`;
	});
	proxy.redirect(url());
	await expect.poll(async () => (await request('list?')).text, { timeout: 5000 }).toContain('put back');
	expect((await request('list?', 'later')).status).toBe(401);
	expect((await request('list?', 'other')).status).toBe(200);
	isRequesting = false;
	await Promise.all(requesting);
	// With the database stopped nothing is confirmed, and after a second nothing is sent from memory.
	const late = responses.filter(({ sentAt }) => sentAt > stoppedAt + 1000);
	expect(late.length).toBeGreaterThan(0);
	expect(late.filter(({ text }) => text.includes('lost'))).toEqual([]);

	const [statement = ''] = /select begin_company_contacts_epoch\(\)/.exec(read('docs/backup.md')) ?? [];
	await withConnection(urlAs(url(), 'owner', rolePassword), (sql) => sql.unsafe(statement));
	const changes = () => request(`changes?cursor=${cursor}&`);
	await expect.poll(async () => (await changes()).status).toBe(410);
	expect(JSON.parse((await changes()).text)).toMatchObject({ code: 'cursor_expired' });
	expect((await request('changes?')).text).toContain('put back');
});
