import type { Database } from '@contacts/common/database/database.js';
import { lastKnown } from '@contacts/common/observability/last-known.js';
import { Gauge, type Registry } from 'prom-client';

/** When the mirror was last found equal to the CRM, in milliseconds since the epoch; null: never. */
export async function readLastSync(database: Database): Promise<number | null> {
	const rows = await database.query(
		(sql) => sql<{ last_success: number | null }[]>`
			select (extract(epoch from last_success_at) * 1000)::float8 as last_success from crm_sync_state`,
	);
	return rows[0]?.last_success ?? null;
}

/** The same, asked for at most once a second, however many want to know. */
export function createLastSync(database: Database, clock: () => number): () => Promise<number | null> {
	let asked = Number.NEGATIVE_INFINITY;
	let answer: Promise<number | null> | undefined;
	return () => {
		if (answer === undefined || clock() - asked > 1000) {
			asked = clock();
			answer = readLastSync(database);
			// A failure is for those who asked; the next one asks anew.
			answer.catch(() => {
				answer = undefined;
			});
		}
		return answer;
	};
}

/** How the mirror stands, as metrics: without them an empty or an old list looks like any other. */
export function measureCrm(registry: Registry, database: Database): void {
	/** Undefined while the database does not answer. One query for all of them. */
	const state = lastKnown<CrmState | undefined>(() => readCrmState(database).catch(() => undefined), undefined);
	const gauge = (name: string, help: string, read: (state: CrmState) => number) =>
		new Gauge({
			name,
			help,
			registers: [registry],
			async collect() {
				const current = await state();
				this.set(current === undefined ? Number.NaN : read(current));
			},
		});
	gauge(
		'crm_last_success_age_seconds',
		'Time since the last successful pass of the synchroniser; NaN when there was none.',
		({ age }) => age ?? Number.NaN,
	);
	gauge('crm_blocked', '1 while something keeps the synchroniser from working, else 0.', ({ blocked }) =>
		Number(blocked),
	);
	gauge('crm_alarm', '1 while the synchroniser holds something back for somebody to look at, else 0.', ({ alarm }) =>
		Number(alarm),
	);
}

interface CrmState {
	/** Seconds since the last successful pass; null: there was none. */
	age: number | null;
	blocked: boolean;
	alarm: boolean;
}

async function readCrmState(database: Database): Promise<CrmState> {
	const rows = await database.query(
		(sql) => sql<CrmState[]>`
			select extract(epoch from now() - last_success_at)::float8 as age,
			       blocked_by is not null as blocked, alarm is not null as alarm
			from crm_sync_state`,
	);
	return rows[0] ?? { age: null, blocked: false, alarm: false };
}
