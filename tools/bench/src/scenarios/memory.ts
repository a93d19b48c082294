import { memoryOf } from '@contacts/testing/proc.js';
import { type Comparison, compare, type Target } from '../report.js';
import type { RunningServer } from '../servers.js';

/** The peak memory of both since their start. None where the system does not report it. */
export function comparePeaks(
	scenario: string,
	ours: RunningServer,
	baseline?: { name: string; server: RunningServer },
	target?: Target,
): Comparison[] {
	const mine = memoryOf(ours.pid);
	const other = baseline && memoryOf(baseline.server.pid);
	if (mine === undefined || (baseline && other === undefined)) return [];
	return [
		compare({
			scenario,
			figure: 'peak memory',
			unit: 'MiB',
			ours: [mine.peak],
			...(baseline && other ? { baseline: { name: baseline.name, values: [other.peak] } } : {}),
			...(target ? { target } : {}),
		}),
	];
}
