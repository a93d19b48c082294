import type { MirrorConfiguration } from '@contacts/crm-sync/mirror-configuration.js';
import { countOpenRequests } from '@contacts/crm-sync/requests.sql.js';
import { readRuns, readState, type SyncState } from '@contacts/crm-sync/sync.sql.js';
import { withDatabase } from './connection.js';
import { type OutputOptions, print, printRecords, printResult } from './output.js';

/** `contacts sync status` */
export async function printSyncStatus(environment: NodeJS.ProcessEnv, options: OutputOptions): Promise<void> {
	const { state, runs, requests } = await withDatabase(environment, async (sql) => ({
		state: await readState(sql),
		runs: await readRuns(sql, 5),
		requests: await countOpenRequests(sql),
	}));
	if (options.json) return printResult({ state, requests, runs }, '', options);
	print(...describeState(state, requests, Date.now()), '');
	await printRecords(
		runs,
		['kind', 'begun_at', 'ended_at', 'outcome', 'seen', 'created', 'changed', 'deleted', 'requests'],
		options,
	);
}

/** The state of the synchroniser, as lines for people. */
function describeState(state: SyncState, requests: number, now: number): string[] {
	const ago = (time: number | null) =>
		time === null ? 'never' : `${new Date(time).toISOString()} (${duration(now - time)} ago)`;
	const lines = [
		`last success   ${ago(state.last_success_at)}`,
		`last full pass ${ago(state.last_full_at)}`,
		`up to          ${state.watermark === null ? '-' : new Date(state.watermark).toISOString()} by the CRM's clock`,
	];
	if (state.full_begun_at !== null) {
		lines.push(`in progress    full pass since ${ago(state.full_begun_at)}, up to contact ${state.full_cursor}`);
	}
	if (requests > 0) lines.push(`requested      ${requests === 1 ? '1 request' : `${requests} requests`} of a command`);
	if (state.blocked_by !== null) {
		const until = state.blocked_until === null ? '' : `, until ${new Date(state.blocked_until).toISOString()}`;
		lines.push(`blocked by     ${state.blocked_by}${until}`);
	}
	if (state.alarm !== null) lines.push(`alarm          ${state.alarm}`);
	if (state.configuration !== null) lines.push(...describeConfiguration(state.configuration));
	return lines;
}

/** The configuration of the mirror, by variable. */
function describeConfiguration(configuration: MirrorConfiguration): string[] {
	const { portal, webhook_user: user, trouble_options: options } = configuration;
	return [
		`portal         ${portal}, read as its user ${user}`,
		`fields         trouble ${configuration.trouble_field ?? '-'}, reason ${configuration.reason_field ?? '-'}`,
		`options        ${options.length > 0 ? options.join(', ') : '-'}`,
		`country        ${configuration.default_country ?? '-'}`,
	];
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
