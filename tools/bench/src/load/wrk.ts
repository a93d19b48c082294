/** Load by wrk, which needs a tenth of the CPU of a generator in JavaScript. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpuSecondsOf } from '@contacts/testing/proc.js';
import type { Lifetime } from '../lifetime.js';
import type { LoadOrder, LoadResult } from './load.js';
import { findProgram, runProgram } from './program.js';

export const findWrk = () => findProgram('wrk');

/** A body of this many bytes or more takes so long that a response in progress counts as the share that has arrived. */
const big = 65_536;

/** @throws Error when a response had a status of 400 or more, or a request failed */
export async function loadByWrk(
	lifetime: Lifetime,
	wrk: string,
	order: LoadOrder,
	seconds: number,
): Promise<LoadResult> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-wrk-'));
	const remove = lifetime.own(() => rmSync(folder, { recursive: true }));
	try {
		const script = join(folder, 'script.lua');
		const list = join(folder, 'requests');
		writeFileSync(list, order.requests.map(({ path, body = '' }) => `${path} ${body}\n`).join(''));
		writeFileSync(script, scriptOf(order, list));
		const runs: LoadResult[] = [];
		for (let second = 0; second < Math.max(1, Math.round(seconds)); second++) {
			runs.push(await run(lifetime, wrk, order, script));
		}
		const sum = (of: (one: LoadResult) => number) => runs.reduce((total, one) => total + of(one), 0);
		return {
			responses: sum((one) => one.responses),
			latency: {
				p50: sum((one) => one.latency.p50) / runs.length,
				p99: sum((one) => one.latency.p99) / runs.length,
			},
			seconds: sum((one) => one.seconds),
			cpuSeconds: sum((one) => one.cpuSeconds),
			windows: runs.flatMap(({ windows }) => windows),
		};
	} finally {
		await remove();
	}
}

/** Runs wrk for a second: that is one window, as wrk counts in whole seconds. */
async function run(lifetime: Lifetime, wrk: string, order: LoadOrder, script: string): Promise<LoadResult> {
	const { url, connections, pid, bytes } = order;
	const before = cpuSecondsOf(pid) ?? Number.NaN;
	const child = runProgram(lifetime, wrk, ['-t1', `-c${connections}`, '-d1s', '-s', script, url], 1);
	let generatorSeconds = 0;
	const looking = setInterval(() => {
		generatorSeconds = cpuSecondsOf(child.pid) ?? generatorSeconds;
	}, 100);
	const output = await child.output.finally(() => clearInterval(looking));
	const serverSeconds = (cpuSecondsOf(pid) ?? Number.NaN) - before;
	const line = /^RESULT (.*)$/m.exec(output)?.[1];
	if (line === undefined) throw new Error(`wrk failed: ${output.trim().slice(-500)}`);
	const [whole = 0, received = 0, duration = 0, failed = 0, wrong = 0, p50 = 0, p99 = 0] = line.split(' ').map(Number);
	if (wrong > 0) throw new Error(`${wrong} of ${whole} responses have a status of 400 or more`);
	if (failed > 0) throw new Error(`${failed} of ${whole} requests failed`);
	if (whole === 0) throw new Error('no response was complete');
	const responses = bytes < big ? whole : received / bytes;
	return {
		responses,
		latency: { p50: p50 / 1000, p99: p99 / 1000 },
		seconds: duration / 1e6,
		cpuSeconds: generatorSeconds,
		windows: Number.isNaN(serverSeconds) ? [] : [{ responses, cpuSeconds: serverSeconds }],
	};
}

/** Formats each request as text once. wrk itself caches a single request and then calls no script. */
function scriptOf({ method, headers, requests }: LoadOrder, list: string): string {
	const fields = Object.entries(headers).map(([name, value]) => `wrk.headers[ [==[${name}]==] ] = [==[${value}]==]`);
	const turn = `
		local at = 0
		function request()
			at = at % #list + 1
			return list[at]
		end`;
	return `
		wrk.method = '${method}'
		${fields.join('\n')}
		list = {}
		for line in io.lines([==[${list}]==]) do
			local path, body = line:match('^(%S+) (.*)$')
			if body == '' then body = nil end
			wrk.path, wrk.body = path, body
			list[#list + 1] = { path, body }
		end
		function init(args)
			for index, one in ipairs(list) do list[index] = wrk.format(nil, one[1], nil, one[2]) end
		end
		${requests.length > 1 ? turn : ''}
		function done(summary, latency)
			local errors = summary.errors
			io.write(string.format('RESULT %d %d %d %d %d %d %d\\n', summary.requests, summary.bytes, summary.duration,
				errors.connect + errors.read + errors.write + errors.timeout, errors.status,
				latency:percentile(50), latency:percentile(99)))
		end`;
}
