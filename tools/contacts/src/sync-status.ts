import type { SyncState } from '@contacts/company-contacts/sync/sync.sql.js';

/** Where the synchroniser stands, line by line, for people. */
export function describeState(state: SyncState, now: number): string {
	const ago = (time: number | null) =>
		time === null ? 'never' : `${new Date(time).toISOString()} (${duration(now - time)} ago)`;
	const lines = [
		`last success   ${ago(state.last_success_at)}`,
		`last full pass ${ago(state.last_full_at)}`,
		`up to          ${state.watermark === null ? '-' : new Date(state.watermark).toISOString()} by the CRM's clock`,
	];
	if (state.full_begun_at !== null) {
		lines.push(`under way      full pass since ${ago(state.full_begun_at)}, up to contact ${state.full_cursor}`);
	}
	if (state.blocked_by !== null) {
		const until = state.blocked_until === null ? '' : `, until ${new Date(state.blocked_until).toISOString()}`;
		lines.push(`blocked by     ${state.blocked_by}${until}`);
	}
	if (state.alarm !== null) lines.push(`alarm          ${state.alarm}`);
	return lines.join('\n');
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
