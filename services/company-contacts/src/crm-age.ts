import type { Database } from '@contacts/common/database/database.js';
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

/** The age of the mirror as a metric: without it an empty or an old list looks like any other. */
export function measureCrmAge(registry: Registry, database: Database): void {
	new Gauge({
		name: 'crm_last_success_age_seconds',
		help: 'Time since the last successful pass of the synchroniser; NaN when there was none.',
		registers: [registry],
		async collect() {
			const last = await readLastSync(database).catch(() => null);
			this.set(last === null ? Number.NaN : (Date.now() - last) / 1000);
		},
	});
}
