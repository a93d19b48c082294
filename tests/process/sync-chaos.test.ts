import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { migrate } from '@contacts/common/database/migrate.js';
import { setUpRoles, urlAs } from '@contacts/common/database/roles.js';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/testing/embedded-postgres.js';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'contacts-chaos-'));
let server: LocalPostgres;
let standIn: StandIn;
let url: string;

beforeAll(async () => {
	server = await startLocalPostgres({ dataDirectory: join(folder, 'postgres'), password: 'test' });
	url = server.url('postgres');
	await setUpRoles(url, { 'crm-sync': 'test' });
	await migrate(url);
	standIn = await startStandIn({ plan: 'enterprise', utcOffset: '+03:00' });
});
afterAll(async () => {
	await standIn?.close();
	await server?.stop();
	rmSync(folder, { recursive: true, force: true });
});

/** Queries a database that may be down for a moment. */
async function query<T extends object>(text: string): Promise<T[] | undefined> {
	const sql = postgres(url, { max: 1, fetch_types: false, connect_timeout: 2, onnotice: () => undefined });
	try {
		return [...(await sql.unsafe<T[]>(text))];
	} catch {
		return undefined;
	} finally {
		await sql.end({ timeout: 1 });
	}
}

interface Row {
	bitrix_id: number;
	name: string | null;
	companies: string | null;
}
const readMirror = () =>
	query<Row>(
		`select bitrix_id::float8 as bitrix_id, name, array_to_string(company_ids, ',') as companies from company_contacts order by bitrix_id`,
	);
const key = (row: Row) => `${row.bitrix_id} ${row.name} ${row.companies}`;

test('the mirror ends equal after ten kills of the synchroniser and a database crash, and no reader sees a state that never existed', async () => {
	const env = {
		PATH: process.env.PATH,
		DATABASE_URL: urlAs(url, 'crm-sync', 'test'),
		BITRIX24_WEBHOOK_URL: standIn.webhookUrl,
		BITRIX24_PLAN: 'enterprise',
		BITRIX24_INTERVAL_SECONDS: '5',
		PORT: '0',
		LOG_LEVEL: 'warn',
	};
	const start = () => spawn(process.execPath, [join(root, 'workers/crm-sync/dist/main.js')], { env, stdio: 'ignore' });

	// Every state that a contact ever had.
	const history = new Set<string>();
	const note = (id: number) => {
		const { lastName = null, companyIds = [] } = standIn.contacts.get(id) ?? {};
		history.add(key({ bitrix_id: id, name: lastName, companies: companyIds.join(',') || null }));
	};
	const add = (n: number) => note(standIn.add({ lastName: `Contact ${n}`, companyIds: n % 3 ? [n, n + 1] : [] }).id);
	for (let n = 0; n < 2000; n++) add(n);

	let seed = 42;
	const random = (below: number) => {
		seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
		return seed % below;
	};
	let changing = true;
	let changes = 0;
	standIn.onRequest(() => {
		if (!changing) return;
		const ids = [...standIn.contacts.keys()];
		const any = () => ids[random(ids.length)] ?? 0;
		changes++;
		const id = any();
		if (changes % 5 === 0) add(10_000 + changes);
		else if (changes % 5 === 1) standIn.remove(id);
		else if (changes % 5 === 2) standIn.merge(id, ids.find((each) => each !== id) ?? 0);
		else if (standIn.contacts.has(id)) standIn.update(id, { lastName: `Changed ${changes}`, companyIds: [changes] });
		for (const each of [id, ...ids.slice(0, 5)]) if (standIn.contacts.has(each)) note(each);
	});
	standIn.onRequest(() => {
		for (const id of standIn.contacts.keys()) note(id);
	});

	let reads = 0;
	const impossible: string[] = [];
	const sizes = new Set<number>();
	let reading = true;
	const reader = (async () => {
		while (reading) {
			const rows = await readMirror();
			if (rows === undefined) continue;
			reads++;
			sizes.add(rows.length);
			for (const row of rows) if (!history.has(key(row))) impossible.push(key(row));
			await new Promise((resolve) => setTimeout(resolve, 50));
		}
	})();

	// At least ten kills, and on a slow machine until enough has happened.
	for (let round = 0; round < 10 || (round < 40 && changes < 30); round++) {
		const before = standIn.requests.length;
		const child = start();
		const exited = once(child, 'exit');
		await vi.waitUntil(() => standIn.requests.length > before || child.exitCode !== null, { timeout: 60_000 });
		expect(child.exitCode).toBe(null);
		await new Promise((resolve) => setTimeout(resolve, random(900)));
		if (round === 5) {
			// When a backend dies PostgreSQL ends all sessions and recovers from its log, as after a crash.
			const [backend] =
				(await query<{ pid: number }>(`select pid from pg_stat_activity where application_name = 'crm-sync'`)) ?? [];
			if (backend) process.kill(backend.pid, 'SIGKILL');
			await new Promise((resolve) => setTimeout(resolve, 1500));
		}
		child.kill('SIGKILL');
		await exited;
	}
	changing = false;
	reading = false;
	await reader;

	const command = async (...args: string[]) => {
		const child = spawn(process.execPath, [join(root, 'tools/cli/dist/main.js'), 'sync', '--once', ...args], {
			env: { ...env, DATABASE_URL: url },
			stdio: ['ignore', 'pipe', 'pipe'],
		});
		const output = Promise.all([child.stdout.toArray(), child.stderr.toArray()]);
		const [code] = await once(child, 'exit');
		return { code, said: (await output).flat().join('') };
	};
	let last = await command('--full');
	// So many contacts may have been deleted that somebody has to confirm it.
	const [, run] = /--confirm-mass-delete (\d+)/.exec(last.said) ?? [];
	if (run !== undefined) last = await command('--confirm-mass-delete', run);
	expect(last).toEqual({ code: 0, said: expect.stringContaining('Full pass:') });

	const expected = [...standIn.contacts.values()].map(({ id, lastName = null, companyIds = [] }) => ({
		bitrix_id: id,
		name: lastName,
		companies: companyIds.join(',') || null,
	}));
	expect(await readMirror()).toEqual(expected.sort((a, b) => a.bitrix_id - b.bitrix_id));
	expect(impossible).toEqual([]);
	expect(changes).toBeGreaterThan(20);
	expect(reads).toBeGreaterThan(10);
	// A reader sees nothing or everything, never half of a pass.
	expect([...sizes].filter((size) => size > 0 && size < 1900)).toEqual([]);
	expect(standIn.blockedRequests).toBe(0);
	console.log(`${changes} changes, ${reads} reads, ${standIn.requests.length} requests, ${sizes.size} sizes seen`);
}, 600_000);
