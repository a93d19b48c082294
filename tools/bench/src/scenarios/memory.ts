import { memoryOf } from '@contacts/testing/proc.js';
import { type Comparison, compare, type Target } from '../report.js';
import type { RunningServer } from '../servers.js';

/** The peak memory of both since their start. None where the system does not report it. */
export function comparePeaks(
	scenario: string,
	ours: RunningServer,
	reference?: { name: string; server: RunningServer },
	target?: Target,
): Comparison[] {
	const mine = memoryOf(ours.pid);
	const other = reference && memoryOf(reference.server.pid);
	if (mine === undefined || (reference && other === undefined)) return [];
	return [
		compare({
			scenario,
			figure: 'peak memory',
			unit: 'MiB',
			ours: [mine.peak],
			...(reference && other ? { reference: { name: reference.name, values: [other.peak] } } : {}),
			...(target ? { target } : {}),
		}),
	];
}
