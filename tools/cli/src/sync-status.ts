import { describeAlarms } from '@contacts/crm-sync/alarms.js';
import { describeHolder, findLockHolder } from '@contacts/crm-sync/session.sql.js';
import { readRuns, readState, type SyncState } from '@contacts/crm-sync/sync.sql.js';
import { withDatabase } from './connection.js';
import type { Context, OutputOptions } from './output.js';

/** `contacts sync status` */
export async function printSyncStatus({ environment, output }: Context, options: OutputOptions): Promise<void> {
	const { state, runs, holder } = await withDatabase(environment, async (sql) => ({
		state: withTimes(await readState(sql)),
		runs: await readRuns(sql, 5),
		holder: await findLockHolder(sql),
	}));
	if (options.json) return output.result({ synchroniser: holder ?? null, state, runs }, '', options);
	const { configuration, full_begun_at: fullBegunAt, blocked_until: until } = state;
	const lines = [
		['synchroniser', holder === undefined ? 'none runs' : describeHolder(holder)],
		['last success', state.last_success_at ?? 'never'],
		['last full run', state.last_full_at ?? 'never'],
		['up to', state.watermark === null ? '-' : `${state.watermark} by the CRM's clock`],
		...(fullBegunAt === null
			? []
			: [['in progress', `full run since ${fullBegunAt}, up to contact ${state.full_cursor}`]]),
		...(state.requested === null ? [] : [['requested', `a run (${state.requested})`]]),
		...(state.blocked_by === null
			? []
			: [['blocked by', `${state.blocked_by}${until === null ? '' : `, until ${until}`}`]]),
		...describeAlarms(state).map((alarm) => ['alarm', alarm]),
		...Object.entries(configuration ?? {}).map(([name, value]) => [name, String(value ?? '-')]),
	];
	for (const [label = '', text] of lines) output.print(`${label.padEnd(17)}${text}`);
	output.print('');
	await output.records([runs], ['id', 'kind', 'begun_at', 'seen', 'created', 'changed', 'deleted', 'outcome'], options);
}

const times = [
	'watermark',
	'last_success_at',
	'last_full_at',
	'full_watermark',
	'full_begun_at',
	'blocked_until',
] as const satisfies (keyof SyncState)[];

type Times = Record<(typeof times)[number], string | null>;

/** The state with its times as RFC 3339. */
function withTimes(state: SyncState): Omit<SyncState, keyof Times> & Times {
	const written = times.map((name) => {
		const time = state[name];
		return [name, time === null ? null : new Date(time).toISOString()];
	});
	return { ...state, ...(Object.fromEntries(written) as Times) };
}
