import { setTimeout as delay } from 'node:timers/promises';
import { type RoleUser, urlAs } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { type LoadedSystem, type Recovery, startLoadedSystem } from '@contacts/testing/loaded-system.js';
import { type MachineDelays, watchDelays } from '@contacts/testing/machine-delays.js';
import { type ReplicatedPostgres, startReplicatedPostgres } from '@contacts/testing/replicated-postgres.js';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, expect } from 'vitest';

/** Milliseconds within which upserts must succeed once the new primary can be reached. */
const writesLimit = 5000;
/** The same for the mirror, which polls the CRM every 5 seconds. */
const mirrorLimit = 15_000;

let servers: ReplicatedPostgres;
let proxies: TcpProxy[];
let system: LoadedSystem | undefined;
let stopWatching: () => Promise<MachineDelays>;
let recoveries: (Recovery & { begun: number })[];

beforeEach(async () => {
	proxies = [];
	recoveries = [];
	// This server does not fail.
	stopWatching = watchDelays(() => database.sql`select 1`);
	servers = await startReplicatedPostgres();
	await servers.asSuperuser(servers.primaryUrl(), (sql) => addProject(sql, 'bot', 'bot-key'));
});
afterEach(async () => {
	await system?.stop();
	await stopWatching();
	system = undefined;
	for (const proxy of proxies) proxy.close();
	await servers?.remove();
});

async function proxyTo(url: string): Promise<TcpProxy> {
	const proxy = await startTcpProxy(url);
	proxies.push(proxy);
	return proxy;
}

const asRole = (url: string, role: RoleUser) => urlAs(url, role, rolePassword);

async function recover(loaded: LoadedSystem, title: string): Promise<void> {
	const begun = performance.now();
	const recovery = await loaded.recovery();
	recoveries.push({ ...recovery, begun });
	const parts = Object.entries(recovery).map(([what, milliseconds]) => `${what} after ${Math.round(milliseconds)} ms`);
	console.info(`${title}: ${parts.join(', ')}`);
}

function expectRecovered(machine: MachineDelays): void {
	for (const { begun, upserts, ready, mirror } of recoveries) {
		const without = (milliseconds: number) =>
			(milliseconds - machine.during(begun, begun + milliseconds)) / machine.slowdown;
		expect(without(upserts)).toBeLessThan(writesLimit);
		expect(without(ready)).toBeLessThan(writesLimit);
		expect(without(mirror)).toBeLessThan(mirrorLimit);
	}
}

/** Stops everything, then checks the recoveries, and compares the acknowledged upserts and the CRM's contacts with the new primary. */
async function expectRecoveredAndNothingLost({ clients, standIn, stop, exits }: LoadedSystem): Promise<void> {
	await stop();
	system = undefined;
	const machine = await stopWatching();
	const slowest = machine.longest(clients.slow);
	const { chats, mirrored } = await servers.asSuperuser(servers.standbyUrl(), async (sql) => ({
		chats: await sql<{ chat: number; name: string }[]>`select chat_id::float8 as chat, name from personal_contacts`,
		mirrored: await sql<{ id: number }[]>`select bitrix_id::float8 as id from company_contacts order by 1`,
	}));
	const versions = new Map(chats.map(({ chat, name }) => [chat, Number(name.slice(1))]));
	const lost = [...clients.stored].filter(([chat, version]) => (versions.get(chat) ?? 0) < version);
	console.info(
		`  ${clients.acknowledged} acknowledged, ${lost.length} lost; outcomes ${JSON.stringify([...clients.outcomes])}; slowest ${Math.round(slowest)} ms without delays of the machine`,
	);
	expect(lost).toEqual([]);
	expectRecovered(machine);
	expect(slowest).toBeLessThan(5000 * machine.slowdown);
	expect(mirrored.map(({ id }) => id)).toEqual([...standIn.contacts.keys()].sort((a, b) => a - b));
	const ended = await exits();
	expect(ended.map(({ code }) => code)).toEqual([0, 0, 0]);
	expect(ended.map(({ output }) => output).join('')).not.toMatch(/"level":"fatal"|unexpected error/);
}

test('one address that moves to the promoted standby while the old primary is unresponsive, then briefly to the demoted primary: writes, mirror and readiness recover', async () => {
	const network = await proxyTo(servers.primaryUrl());
	system = await startLoadedSystem((role) => network.through(asRole(servers.primaryUrl(), role)));

	network.blackhole();
	await servers.promoteStandby();
	network.redirect(servers.standbyUrl());
	await network.restore();
	await recover(system, 'a silent primary, and a promoted standby behind its address');

	await servers.demotePrimary();
	const demoted = performance.now();
	network.cut();
	network.redirect(servers.primaryUrl());
	await network.restore();
	await delay(3000);
	const [personal, mirror] = (['personal-contacts', 'crm-sync'] as const).map((name) =>
		system?.readiness(name, demoted + 1000),
	);
	network.redirect(servers.standbyUrl());
	await recover(system, 'the address led to the demoted primary for a moment');

	expect(personal?.length).toBeGreaterThan(0);
	expect(new Set(personal)).toEqual(new Set([503]));
	// The synchroniser has lost its session, so it may be between two processes.
	expect(mirror?.filter((status) => status !== 503)).toEqual([]);
	await expectRecoveredAndNothingLost(system);
});

test('two hosts whose primary becomes unresponsive and returns as a standby: writes, mirror and readiness follow the promoted one', async () => {
	const [first, second] = [await proxyTo(servers.primaryUrl()), await proxyTo(servers.standbyUrl())];
	const hosts = [first, second].map((proxy) => new URL(proxy.through(servers.primaryUrl())).host);
	system = await startLoadedSystem(
		(role) =>
			`${asRole(servers.primaryUrl(), role).replace(/@[^/]+/, `@${hosts.join()}`)}?target_session_attrs=read-write`,
	);

	first.blackhole();
	await servers.promoteStandby();
	await recover(system, 'two hosts, the primary silent');

	await servers.demotePrimary();
	first.redirect(servers.primaryUrl());
	await first.restore();
	second.cut();
	await second.restore();
	await recover(system, 'two hosts, the demoted primary is the first');

	await expectRecoveredAndNothingLost(system);
});
