import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';

/** What a summary needs of a CPU profile, in the format of the DevTools protocol. */
export interface CpuProfile {
	nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[];
	/** The node that was on top at each sample. */
	samples: number[];
	/** Microseconds before each sample. */
	timeDeltas: number[];
}

/** Frames that mean that nothing of the program ran. */
const idleFrames = ['(idle)', '(root)'];

/** Where the time went that was not idle: its share by function, the greatest first, without what these called. */
export function selfTimes(
	{ nodes, samples, timeDeltas }: CpuProfile,
	most: number,
): { where: string; share: number }[] {
	const places = new Map(nodes.map(({ id, callFrame }) => [id, placeOf(callFrame)]));
	const times = new Map<string, number>();
	let total = 0;
	for (const [index, id] of samples.entries()) {
		const where = places.get(id) ?? '';
		if (idleFrames.includes(where)) continue;
		const time = timeDeltas[index] ?? 0;
		total += time;
		times.set(where, (times.get(where) ?? 0) + time);
	}
	return [...times]
		.sort(([, a], [, b]) => b - a)
		.slice(0, most)
		.map(([where, time]) => ({ where, share: time / total }));
}

/**
 * Summaries for people of the profiles in a folder, those of earlier runs left out. The start of each process is in them.
 *
 * @param since milliseconds since the epoch
 */
export function summariesOf(folder: string, since: number): string {
	const files = readdirSync(folder).filter((file) => file.endsWith('.cpuprofile'));
	const fresh = files.filter((file) => statSync(join(folder, file)).mtimeMs >= since);
	return fresh.map((file) => summaryOf(join(folder, file))).join('\n');
}

function summaryOf(file: string): string {
	const profile = JSON.parse(readFileSync(file, 'utf8')) as CpuProfile;
	const lines = selfTimes(profile, 15).map(({ where, share }) => `${(share * 100).toFixed(1).padStart(6)} %  ${where}`);
	return [`${basename(file, '.cpuprofile')}, self times:`, ...lines, ''].join('\n');
}

function placeOf({ functionName, url, lineNumber }: CpuProfile['nodes'][number]['callFrame']): string {
	if (url === '') return functionName || '(native)';
	// Of an installed package, what is below its folder; of the product, the last folders of the path.
	const file = url.split('/node_modules/').at(-1) ?? url;
	const short = url.includes('/node_modules/') ? file : file.split('/').slice(-4).join('/');
	return `${functionName || '(anonymous)'}  ${short}:${lineNumber + 1}`;
}
