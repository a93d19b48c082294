import { describeAlarms } from '@contacts/crm-sync/alarms.js';
import type { MirrorConfiguration } from '@contacts/crm-sync/mirror-configuration.js';
import { describeHolder, findLockHolder, type LockHolder } from '@contacts/crm-sync/session.sql.js';
import { readRuns, readState, type SyncState } from '@contacts/crm-sync/sync.sql.js';
import { withDatabase } from './connection.js';
import { type OutputOptions, print, printRecords, printResult } from './output.js';

/** `contacts sync status` */
export async function printSyncStatus(environment: NodeJS.ProcessEnv, options: OutputOptions): Promise<void> {
	const { state, runs, holder } = await withDatabase(environment, async (sql) => ({
		state: await readState(sql),
		runs: await readRuns(sql, 5),
		holder: await findLockHolder(sql),
	}));
	if (options.json) return printResult({ synchroniser: holder ?? null, state: withTimes(state), runs }, '', options);
	print(...describeState(state, holder, Date.now()), '');
	const rows = runs.map(({ kind, begun_at, seen, created, changed, deleted, outcome }) => ({
		kind,
		begun_at: begun_at.slice(0, 16).replace('T', ' '),
		seen,
		saved: created + changed,
		deleted,
		outcome,
	}));
	await printRecords(rows, ['kind', 'begun_at', 'seen', 'saved', 'deleted', 'outcome'], options);
}

const times = [
	'watermark',
	'last_success_at',
	'last_full_at',
	'full_watermark',
	'full_begun_at',
	'blocked_until',
] as const satisfies (keyof SyncState)[];

/** The state with its times as RFC 3339. */
function withTimes(state: SyncState): object {
	const written = times.map((name) => {
		const time = state[name];
		return [name, time === null ? null : new Date(time).toISOString()];
	});
	return { ...state, ...Object.fromEntries(written) };
}

/** The state of the synchroniser, as lines for people. */
function describeState(state: SyncState, holder: LockHolder | undefined, now: number): string[] {
	const at = (time: number) => new Date(time).toISOString();
	const ago = (time: number | null) => (time === null ? 'never' : `${at(time)} (${duration(now - time)} ago)`);
	const lines: [string, string][] = [
		['synchroniser', holder === undefined ? 'none runs' : describeHolder(holder)],
		['last success', ago(state.last_success_at)],
		['last full pass', ago(state.last_full_at)],
		['up to', state.watermark === null ? '-' : `${at(state.watermark)} by the CRM's clock`],
	];
	if (state.full_begun_at !== null)
		lines.push(['in progress', `full pass since ${at(state.full_begun_at)}, up to contact ${state.full_cursor}`]);
	if (state.requested !== null) lines.push(['requested', `a pass (${state.requested})`]);
	if (state.blocked_by !== null) {
		const until = state.blocked_until === null ? '' : `, until ${at(state.blocked_until)}`;
		lines.push(['blocked by', `${state.blocked_by}${until}`]);
	}
	for (const alarm of describeAlarms(state)) lines.push(['alarm', alarm]);
	if (state.configuration !== null) lines.push(...describeConfiguration(state.configuration));
	return lines.flatMap(([label, text]) =>
		wrapped(text, 64).map((line, index) => `${(index === 0 ? label : '').padEnd(15)}${line}`),
	);
}

/** The configuration of the mirror, by variable. */
function describeConfiguration(configuration: MirrorConfiguration): [string, string][] {
	const { portal, webhook_user: user, trouble_options: options } = configuration;
	return [
		['portal', `${portal}, read as its user ${user}`],
		['fields', `trouble ${configuration.trouble_field ?? '-'}, reason ${configuration.reason_field ?? '-'}`],
		['options', options.length > 0 ? options.join(', ') : '-'],
		['country', configuration.default_country ?? '-'],
	];
}

/** Text as lines of whole words, each of at most this many characters unless one word is longer. */
function wrapped(text: string, width: number): string[] {
	const lines = [''];
	for (const word of text.split(' ')) {
		const line = lines.at(-1) ?? '';
		if (line === '') lines[lines.length - 1] = word;
		else if (line.length + 1 + word.length <= width) lines[lines.length - 1] = `${line} ${word}`;
		else lines.push(word);
	}
	return lines;
}

/** Milliseconds as the largest unit that fits, such as `3 minutes`. */
function duration(milliseconds: number): string {
	const units: [number, string][] = [
		[86_400_000, 'day'],
		[3_600_000, 'hour'],
		[60_000, 'minute'],
		[1000, 'second'],
	];
	const [size, name] = units.find(([unit]) => milliseconds >= unit) ?? [1000, 'second'];
	const count = Math.max(0, Math.floor(milliseconds / size));
	return `${count} ${name}${count === 1 ? '' : 's'}`;
}
