import type { Sql } from '@contacts/common/database/client.js';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { type CrashablePostgres, startCrashablePostgres } from '@contacts/testing/crashable-postgres.js';
import { seededRandom } from '@contacts/testing/random.js';
import { type ServiceProcess, spawnService } from '@contacts/testing/services.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { contacts } from '../command.js';

let postgres: CrashablePostgres;
let standIn: StandIn;

beforeAll(async () => {
	postgres = await startCrashablePostgres();
	standIn = await startStandIn({ plan: 'enterprise' });
});
afterAll(async () => {
	await standIn?.close();
	await postgres?.remove();
});

/** So few that all full runs together do not wait for the CRM's rate limit. */
const contactsAtFirst = 1000;
/** As many requests as a full run of so many contacts makes, about. */
const maxRequests = 20;
const patient = { timeoutMs: 110_000 };

interface Row {
	bitrix_id: number;
	name: string | null;
	companies: string | null;
}
const readMirror = () =>
	postgres.asSuperuser(async (sql) => [
		...(await sql<Row[]>`
			select bitrix_id::float8 as bitrix_id, name, array_to_string(company_ids, ',') as companies
			from company_contacts order by bitrix_id`),
	]);
const readCrm = (): Row[] =>
	[...standIn.contacts.values()]
		.map(({ id, lastName = null, companyIds = [] }) => ({
			bitrix_id: id,
			name: lastName,
			companies: companyIds.join(',') || null,
		}))
		.sort((a, b) => a.bitrix_id - b.bitrix_id);
const key = (row: Row) => `${row.bitrix_id} ${row.name} ${row.companies}`;
const makeFullRunDue = (sql: Sql) => sql`update crm_sync_state set last_full_at = null`;
const finishedFullRuns = (sql: Sql) => sql`select from crm_sync_runs where kind = 'full' and outcome = 'done'`;

test('the mirror ends equal after twelve kills of the synchroniser and a database crash, and no reader sees a state that never existed', async () => {
	const random = seededRandom();
	const environment = { BITRIX24_WEBHOOK_URL: standIn.webhookUrl, BITRIX24_PLAN: 'enterprise' };
	for (let n = 0; n < contactsAtFirst; n++)
		standIn.add({ lastName: `Contact ${n}`, companyIds: n % 3 ? [n, n + 1] : [] });

	// Every state that a contact ever had.
	const history = new Set<string>();
	let isChanging = true;
	let changes = 0;
	standIn.onRequest(() => {
		if (isChanging) change(++changes);
		for (const row of readCrm()) history.add(key(row));
	});
	/** Contacts become more, so that each run leaves a mirror of another size. */
	function change(n: number): void {
		const [id = 0, other = 0] = random.shuffled([...standIn.contacts.keys()]);
		if ([0, 2, 5].includes(n % 10)) standIn.add({ lastName: `Added ${n}`, companyIds: [n] });
		else if (n % 10 === 1) standIn.remove(id);
		else if (n % 10 === 6) standIn.merge(id, other);
		else standIn.update(id, { lastName: `Changed ${n}`, companyIds: [n] });
	}

	let reads = 0;
	const impossible: string[] = [];
	const sizes = new Set<number>();
	async function read(): Promise<void> {
		// None while the database recovers.
		const rows = await readMirror().catch(() => undefined);
		if (rows === undefined) return;
		reads++;
		sizes.add(rows.length);
		impossible.push(...rows.map(key).filter((each) => !history.has(each)));
	}
	const readAll = async () => {
		await read();
		return !isChanging;
	};
	const reader = waitUntil(readAll, { timeoutMs: 600_000, intervalMs: 50 });
	onTestFinished(async () => {
		isChanging = false;
		await reader;
	});

	/** Waits until the synchroniser has made so many requests, or has finished a run. */
	async function reaches(service: ServiceProcess, requests: number): Promise<void> {
		const until = standIn.requests.length + requests;
		const isDone = () => service.log().some(({ msg }) => msg === 'run done');
		await waitUntil(() => standIn.requests.length >= until || isDone() || service.hasExited, patient);
		expect(service.hasExited, service.output()).toBe(false);
	}

	for (let round = 0; round < 12; round++) {
		await postgres.asSuperuser(makeFullRunDue);
		const service = spawnService('crm-sync', { DATABASE_URL: postgres.urlAs('crm-sync'), ...environment });
		onTestFinished(() => service.kill('SIGKILL'));
		// Each third synchroniser finishes the run that the ones before it have begun.
		await reaches(service, round % 3 === 2 ? Number.POSITIVE_INFINITY : random.integer(1, maxRequests));
		if (round === 6) {
			await postgres.crashBackend('crm-sync');
			expect(await service.exit).toBe(1);
			await postgres.responds();
		}
		await service.stop('SIGKILL');
	}
	isChanging = false;
	await reader;
	const finished = await postgres.asSuperuser(finishedFullRuns);
	console.log(
		`seed ${random.seed}: ${changes} changes, ${reads} reads, ${standIn.requests.length} requests, ${finished.length} full runs, ${sizes.size} sizes seen`,
	);

	const command = (...args: string[]) =>
		contacts(['sync', '--once', ...args], { DATABASE_URL: postgres.urlAs('operator'), ...environment });
	let last = await command('--full');
	// So many contacts may have been deleted that somebody has to confirm it.
	const [, run] = /--confirm-mass-delete (\d+)/.exec(last.out + last.error) ?? [];
	if (run !== undefined) last = await command('--confirm-mass-delete', run);
	expect(last).toEqual({ code: 0, out: expect.stringContaining('Full run:'), error: expect.any(String) });

	expect(await readMirror()).toEqual(readCrm());
	expect(impossible).toEqual([]);
	expect(reads).toBeGreaterThan(10);
	expect(finished.length).toBeGreaterThan(2);
	// A reader sees nothing or everything, never half of a run.
	expect([...sizes].filter((size) => size > 0 && size < 0.95 * contactsAtFirst)).toEqual([]);
	expect([...sizes].filter((size) => size > 0).length).toBeGreaterThan(1);
	expect(standIn.blockedRequests).toBe(0);
}, 600_000);
