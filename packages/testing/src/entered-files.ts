import { Session } from 'node:inspector/promises';

/** Enough that no timer runs in all of them. */
const requests = 20;

/** Vitest makes each export a function, which runs wherever the export is read. */
const exported = /^\(\) => ?\{ try \{ return /;

/**
 * The own files with a function that runs in this process between a request and its response, by name. Only files count
 * that every one of some equal requests enters, and none that merely observe.
 */
export async function enteredFiles(request: () => Promise<unknown>): Promise<string[]> {
	const session = new Session();
	session.connect();
	await session.post('Debugger.enable');
	await session.post('Profiler.enable');
	await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
	const entered = new Map<string, number>();
	for (let n = 0; n < requests; n++) {
		await session.post('Profiler.takePreciseCoverage');
		await request();
		const { result } = await session.post('Profiler.takePreciseCoverage');
		for (const { url, scriptId, functions } of result) {
			const [, file] = /\/(?:packages|services)\/(?!testing\/)[^/]+\/(?:src|dist)\/(.*)\.[jt]s$/.exec(url) ?? [];
			if (file === undefined || /^observability\/|\.test$/.test(file)) continue;
			const { scriptSource } = await session.post('Debugger.getScriptSource', { scriptId });
			const ran = functions.flatMap(({ ranges: [whole] }) => (whole !== undefined && whole.count > 0 ? [whole] : []));
			if (ran.every(({ startOffset }) => exported.test(scriptSource.slice(startOffset, startOffset + 100)))) continue;
			entered.set(file, (entered.get(file) ?? 0) + 1);
		}
	}
	session.disconnect();
	return [...entered].flatMap(([file, times]) => (times === requests ? [`${file}.ts`] : [])).sort();
}
