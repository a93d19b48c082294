import { createCompanyContactsClient } from '@contacts/client';
import { type RoleUser, urlAs } from '@contacts/migrations/roles.js';
import { addProject, revokeKeysOf } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { type ReplicatedPostgres, startReplicatedPostgres } from '@contacts/testing/replicated-postgres.js';
import { startServiceProcess } from '@contacts/testing/service-process.js';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { Copy } from './judges/copy.js';

const credentials = { project: 'partner', apiKey: 'partner-key' };

let servers: ReplicatedPostgres;
/** What the name of the database leads to. */
let network: TcpProxy;

const on = (url: string, statement: string) =>
	servers.asSuperuser(url, (sql) => sql.unsafe(statement).simple().execute());

beforeEach(async () => {
	servers = await startReplicatedPostgres();
	onTestFinished(() => servers.remove());
	network = await startTcpProxy(servers.primaryUrl());
	onTestFinished(() => network.close());
	await servers.asSuperuser(servers.primaryUrl(), async (sql) => {
		await addProject(sql, credentials.project, credentials.apiKey);
		for (const name of ['first', 'second']) await addProject(sql, name, `${name}-key`);
		await sql`insert into company_contacts (bitrix_id, name) select n, 'first' from generate_series(1, 40) n`;
	});
});

/** A service whose database has the name that the network leads. */
async function start(name: RoleUser & ('company-contacts' | 'personal-contacts'), url?: string): Promise<string> {
	const service = startServiceProcess(name, {
		DATABASE_URL: url ?? network.through(urlAs(servers.primaryUrl(), name, rolePassword)),
	});
	return service.listening();
}

/** Lets the name lead to another server, as a failover does. */
async function leadTo(url: string): Promise<void> {
	network.cut();
	network.redirect(url);
	await network.restore();
}

/** Keeps the standby from receiving what is committed from now on. */
async function detachStandby(): Promise<void> {
	const senders = await servers.asSuperuser(
		servers.primaryUrl(),
		(sql) => sql<{ pid: number }[]>`select pid from pg_stat_replication`,
	);
	for (const { pid } of senders) {
		process.kill(pid, 'SIGSTOP');
		onTestFinished(() => void process.kill(pid, 'SIGCONT'));
	}
}

const statusOf = async (url: string, project: string) => {
	const response = await fetch(`${url}/api/company_contacts.list?project=${project}&api_key=${project}-key`);
	await response.arrayBuffer();
	return response.status;
};

const upsertStatus = async (url: string, project: string) => {
	const response = await fetch(`${url}/api/personal_contacts?project=${project}&api_key=${project}-key`, {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: '{"chat_id":1}',
	});
	return response.status;
};

test('nothing is served by a process on a standby, and after the promotion a copy equals the list and begins again once', async () => {
	const clientOf = (baseUrl: string) => createCompanyContactsClient({ baseUrl, ...credentials });
	const primary = clientOf(await start('company-contacts'));
	const onStandby = await start('company-contacts', urlAs(servers.standbyUrl(), 'company-contacts', rolePassword));
	const copy = new Copy();
	await primary.keepCopy(copy);
	expect(copy.list).toHaveLength(40);
	expect(await statusOf(onStandby, 'partner')).toBe(500);
	expect((await fetch(`${onStandby}/health/ready`)).status).toBe(503);

	await servers.promoteStandby();
	const standby = clientOf(onStandby);
	await expect.poll(async () => (await fetch(`${onStandby}/health/ready`)).status).toBe(200);
	expect(await standby.keepCopy(copy)).toBe(0);
	await on(servers.standbyUrl(), 'delete from company_contacts where bitrix_id = 40');
	await expect.poll(() => standby.keepCopy(copy)).toBeGreaterThan(0);
	await expect.poll(async () => (await standby.list()).contacts).toEqual(copy.list);
	// A new primary can't know which versions the old one gave out.
	expect(copy.begun).toBe(2);
});

test('the keys of a promoted standby count within a second, although their version is the one that was known', async () => {
	const [company, personal] = [await start('company-contacts'), await start('personal-contacts')];
	for (const project of ['first', 'second'])
		expect([await statusOf(company, project), await upsertStatus(personal, project)]).toEqual([200, 200]);
	const revoke = (url: string, project: string) =>
		servers.asSuperuser(url, async (sql) => {
			// The standby receives nothing.
			await sql`set synchronous_commit = local`;
			await revokeKeysOf(sql, project);
			const [{ version }] = await sql<[{ version: string }]>`select version::text from key_ring_version`;
			return version;
		});

	await detachStandby();
	const version = await revoke(servers.primaryUrl(), 'first');
	for (const status of [() => statusOf(company, 'first'), () => upsertStatus(personal, 'first')])
		await expect.poll(status).toBe(401);
	await servers.promoteStandby();
	// It lacks that revocation, and has another one instead.
	expect(await revoke(servers.standbyUrl(), 'second')).toBe(version);

	await leadTo(servers.standbyUrl());
	const moved = performance.now();
	const last = { company: 0, personal: 0 };
	for (const [name, status] of [
		['company', () => statusOf(company, 'second')],
		['personal', () => upsertStatus(personal, 'second')],
	] as const) {
		for (;;) {
			const begun = performance.now();
			const received = await status();
			if (received === 200) last[name] = begun - moved;
			if (received === 401) break;
		}
	}
	console.log(`the last accepted request came ${JSON.stringify(last)} ms after the name led to the new primary`);
	expect(Math.max(last.company, last.personal)).toBeLessThan(1000);
	await expect.poll(() => statusOf(company, 'first')).toBe(200);
	await expect.poll(() => upsertStatus(personal, 'first')).toBe(200);
});

test('no list of a demoted primary is sent while the name leads to it', async () => {
	const company = await start('company-contacts');
	expect(await statusOf(company, 'partner')).toBe(200);
	await servers.promoteStandby();
	await on(servers.standbyUrl(), "update company_contacts set name = 'of the new primary'");
	await servers.demotePrimary();
	await leadTo(servers.primaryUrl());
	const moved = performance.now();
	const statuses = new Map<number, number>();
	let lastList = 0;
	while (performance.now() - moved < 4000) {
		const begun = performance.now();
		const status = await statusOf(company, 'partner');
		statuses.set(status, (statuses.get(status) ?? 0) + 1);
		if (status === 200) lastList = begun - moved;
	}
	console.log(
		`while the name led to the demoted primary: ${JSON.stringify([...statuses])}, the last list ${lastList} ms after`,
	);
	expect(statuses.get(500)).toBeGreaterThan(0);
	expect(lastList).toBeLessThan(1000);
	expect((await fetch(`${company}/health/ready`)).status).toBe(503);

	await leadTo(servers.standbyUrl());
	await expect.poll(() => statusOf(company, 'partner')).toBe(200);
	const response = await fetch(`${company}/api/company_contacts.list?project=partner&api_key=partner-key`);
	expect(await response.text()).toContain('of the new primary');
});
