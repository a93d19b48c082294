import { createLogger } from '@contacts/common/observability/logger.js';
import { urlAs } from '@contacts/migrations/roles.js';
import {
	type Fault,
	type StandInContact,
	type StandInOptions,
	startStandIn,
} from '@contacts/testing/bitrix24/stand-in.js';
import { rolePassword } from '@contacts/testing/database.js';
import { steppedClock } from '@contacts/testing/stepped-clock.js';
import { database } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { toCrmConfig } from '../config.js';
import { confirmLoss } from '../mirror/requests.sql.js';
import type { RunKind } from '../mirror/runs.sql.js';
import { openSession } from '../mirror/session.js';
import { readState } from '../mirror/state.sql.js';
import { createSynchroniser, type SynchroniserOptions } from '../synchroniser.js';

export const troubleField = 'UF_CRM_1700000000001';
export const reasonField = 'UF_CRM_1700000000002';

/** Resets the mirror in the test file's database to its state after the migrations. */
export async function emptyMirror(): Promise<void> {
	await database.sql.unsafe(`
		delete from company_contacts; delete from crm_sync_staging; delete from crm_event_inbox;
		delete from crm_sync_runs;
		delete from crm_sync_state; insert into crm_sync_state default values;
		delete from crm_sync_requests; insert into crm_sync_requests default values`);
}

export type SyncHarness = Awaited<ReturnType<typeof openSync>>;

type SyncOptions = StandInOptions & { crmAheadMs?: number };

/** Opens the harness for the current test. */
export async function startSync(options: SyncOptions = {}): Promise<SyncHarness> {
	const sync = await openSync(options);
	onTestFinished(() => sync.close());
	return sync;
}

/** Starts a stand-in of the CRM and a synchroniser on one clock, which moves only when somebody sleeps or advances it. */
export async function openSync({ crmAheadMs = 0, ...options }: SyncOptions = {}) {
	const clock = steppedClock();
	const standIn = await startStandIn({
		clock: () => clock.now() + crmAheadMs,
		fields: [
			{ name: troubleField, type: 'boolean' },
			{ name: reasonField, type: 'string' },
		],
		...options,
	});
	const config = toCrmConfig({
		BITRIX24_WEBHOOK_URL: standIn.webhookUrl,
		BITRIX24_PLAN: 'standard',
		BITRIX24_UF_TROUBLE: troubleField,
		BITRIX24_UF_REASON: reasonField,
		BITRIX24_DEFAULT_COUNTRY: 'RU',
		BITRIX24_INTERVAL_SECONDS: 300,
	});
	/** All log lines, at every level. */
	const log: string[] = [];
	/** The kind of run of each contact that could not be read. */
	const unread: RunKind[] = [];
	const logger = createLogger({
		name: 'sync',
		level: 'trace',
		destination: { write: (line: string) => void log.push(line) },
	});
	const start = async (changed: Partial<SynchroniserOptions> = {}) => {
		const session = await openSession(urlAs(database.url, 'crm-sync', rolePassword));
		if (session === undefined) throw new Error('another synchroniser works');
		const onUnread = (kind: RunKind, contacts: number) => void unread.push(...Array(contacts).fill(kind));
		const seams = { session, clock, logger, onUnread, responseTimeoutMs: 60_000 };
		return { session, synchroniser: await createSynchroniser({ config, ...seams, ...changed }) };
	};
	let running = await start().catch(async (error) => {
		await standIn.close();
		throw error;
	});
	const state = () => running.session.run(readState);
	return {
		standIn,
		clock,
		log,
		unread,
		get synchroniser() {
			return running.synchroniser;
		},
		get session() {
			return running.session;
		},
		/** Ends this synchroniser and starts another one, as after a restart, optionally with other options. */
		async restart(changed?: Partial<SynchroniserOptions>) {
			await running.session.close();
			running = await start(changed);
		},
		/** The IDs of the CRM's contacts. */
		ids: () => [...standIn.contacts.keys()],
		state,
		/** Confirms what the last full run holds, as "contacts sync --confirm-mass-delete" does. */
		async confirm(): Promise<void> {
			const { held_run: run } = await state();
			await running.session.run((sql) => confirmLoss(sql, run ?? 0));
		},
		/** Also empties the mirror. */
		async close() {
			await running.session.close();
			await standIn.close();
			await emptyMirror();
		},
	};
}

const companiesOf = (n: number) => Array.from({ length: n % 13 }, (_, index) => ((n * 31 + index * 17) % 5000) + 1);

/** The n-th contact of an invented CRM. Each field is missing in some contacts, independently of the others. */
export function makeContact(n: number): Partial<StandInContact> {
	return {
		name: n % 7 === 0 ? null : `Имя${n}`,
		secondName: n % 3 === 0 ? '' : `  Mid  ${n} `,
		lastName: n % 5 === 0 ? null : `O'Last "${n}"`,
		assignedById: n % 11 === 0 ? 0 : (n % 40) + 1,
		companyIds: companiesOf(n),
		phones:
			n % 10 === 0
				? []
				: [
						{ id: n * 10, valueType: 'WORK', value: '12' },
						{
							id: n * 10 + 1,
							valueType: n % 2 ? 'MOBILE' : 'HOME',
							value: `8 (9${String(n % 100).padStart(2, '0')}) ${String(n).padStart(7, '0')}`,
						},
					],
		uf: { [troubleField]: n % 17 === 0, [reasonField]: n % 17 === 0 ? ` reason ${n} ` : '' },
	};
}

/** So many contacts, from the first one on. */
export const makeContacts = (count: number) => Array.from({ length: count }, (_, index) => makeContact(index + 1));

/** The expected row of a contact made by `makeContact`, calculated without the mapping. */
export function expectedRow(id: number, n: number) {
	const parts = [n % 7 === 0 ? '' : `Имя${n}`, n % 3 === 0 ? '' : `Mid ${n}`, n % 5 === 0 ? '' : `O'Last "${n}"`];
	return {
		bitrix_id: id,
		phone: n % 10 === 0 ? null : `+79${String(n % 100).padStart(2, '0')}${String(n).padStart(7, '0')}`,
		company_ids: [...new Set(companiesOf(n))].join(',') || null,
		name: parts.filter((part) => part !== '').join(' ') || null,
		assigned_by_id: n % 11 === 0 ? null : (n % 40) + 1,
		trouble_contact: n % 17 === 0,
		perplexity_reason: n % 17 === 0 ? `reason ${n}` : null,
	};
}

export type ExpectedRow = ReturnType<typeof expectedRow>;

/** The stored mirror, in the order of the CRM's IDs. */
export async function readMirror(): Promise<ExpectedRow[]> {
	return [
		...(await database.sql<ExpectedRow[]>`
			select bitrix_id::float8 as bitrix_id, phone, array_to_string(company_ids, ',') as company_ids, name,
			       assigned_by_id::float8 as assigned_by_id, trouble_contact, perplexity_reason
			from company_contacts order by bitrix_id`),
	];
}

export const mirroredIds = async () => (await readMirror()).map((row) => row.bitrix_id);
export const rowOf = async (id: number) => (await readMirror()).find((row) => row.bitrix_id === id);

/** An error of the CRM with this code. */
export const error = (code: string, status?: number): Fault => ({ kind: 'error', code, ...(status && { status }) });

/** Concerns the last page, with 120 to 150 contacts in the CRM. */
export const atLastPage = {
	when: ({ params }: { params: { filter?: Record<string, unknown> } }) => Number(params.filter?.['>id']) > 60,
};

/** Makes a run that ends in the middle of a full run, like a stopped process. With 120 to 150 contacts in the CRM. */
export async function interrupt({ standIn, synchroniser, state }: SyncHarness, options = {}): Promise<void> {
	standIn.faults.next(error('INVALID_CREDENTIALS'), atLastPage);
	await expect(synchroniser.run(options)).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
	expect((await state()).full_cursor).toBeGreaterThan(0);
}

/** Stores an event for each of these contacts. */
export const storeEvents = (...ids: number[]) => database.sql`
	insert into crm_event_inbox (bitrix_id)
	select json_array_elements_text(${JSON.stringify(ids)}::text::json)::bigint`;
