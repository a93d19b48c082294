import type { Portal } from './portal.js';
import { formatDate } from './portal-dates.js';

/** The `time` of a response, by the portal's clock and in its zone. [DOC] [REC] */
export function timeOf(portal: Portal, method: string, seconds: number): Record<string, unknown> {
	const { switches, utcOffset } = portal;
	const start = portal.clock() / 1000;
	// [INF] A call that is billed nothing has still taken some time.
	const duration = Math.max(seconds, 0.05);
	const whole = (value: number) => (switches.wholeSecondsInTime ? Math.floor(value) : value);
	const time: Record<string, unknown> = {
		start: whole(start),
		finish: start + duration,
		duration,
		processing: whole(duration * 0.4),
		date_start: formatDate(start * 1000, utcOffset),
		date_finish: formatDate((start + duration) * 1000, utcOffset),
	};
	if (switches.operatingResetAt === 'present') time.operating_reset_at = portal.operating.resetAt(method);
	if (switches.operatingResetAt === 'null') time.operating_reset_at = null;
	time.operating = portal.operating.spent(method);
	return time;
}
