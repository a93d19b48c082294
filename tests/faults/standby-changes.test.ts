import { type RoleUser, urlAs } from '@contacts/migrations/roles.js';
import { addProject, revokeKeysOf } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { type ReplicatedPostgres, startReplicatedPostgres } from '@contacts/testing/replicated-postgres.js';
import { startServiceProcess } from '@contacts/testing/service-process.js';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { beforeEach, expect, onTestFinished, test } from 'vitest';

const credentials = { project: 'partner', apiKey: 'partner-key' };

let servers: ReplicatedPostgres;
/** What the name of the database leads to. */
let network: TcpProxy;

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

const post = async (url: string, path: string, project: string, body: object) => {
	const response = await fetch(`${url}/api/${path}?project=${project}&api_key=${project}-key`, {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify(body),
	});
	const { ok } = (await response.json()) as { ok?: string };
	return ok ?? response.status;
};

const upsertStatus = async (url: string, project: string) => {
	const result = await post(url, 'personal_contacts', project, { chat_id: 1 });
	return result === 'saved' ? 200 : result;
};

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

test('a name that has led to a standby for a moment is followed, although the connections to the standby stay open', async () => {
	const company = await start('company-contacts');
	expect(await statusOf(company, 'first')).toBe(200);
	await leadTo(servers.standbyUrl());
	await expect.poll(() => statusOf(company, 'first')).toBe(500);
	network.redirect(servers.primaryUrl());
	await expect.poll(() => statusOf(company, 'first')).toBe(200);
});

test('a former primary says skipped no more than saved: its standby may have been promoted, and told that the chat has left', async () => {
	const personal = await start('personal-contacts');
	const upsert = () => post(personal, 'personal_contacts', 'first', { chat_id: 2 });
	const report = (active: boolean) => post(personal, 'direct_subscriptions', 'first', { chat_id: 2, active });
	expect([await report(true), await upsert()]).toEqual(['saved', 'skipped']);

	await detachStandby();
	expect(await upsert()).toBe(500);

	await servers.promoteStandby();
	await leadTo(servers.standbyUrl());
	await expect.poll(() => report(false)).toBe('saved');
	expect(await upsert()).toBe('saved');
});
