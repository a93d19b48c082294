import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { LocalPostgresError } from '@contacts/local-postgres/binaries.js';
import { startLoad } from './load.js';
import { chartOf, verdictOn } from './report.js';
import { requestKinds } from './requests.js';
import { type Sample, sampler } from './samples.js';
import { readSettings, type Settings, UsageError, usage } from './settings.js';
import { setStage } from './stage.js';

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupted.abort());

process.exitCode = await main();

/** @returns the exit code */
async function main(): Promise<number> {
	try {
		const settings = readSettings(process.argv.slice(2));
		if (settings !== undefined) return (await soak(settings)) ? 0 : 1;
		process.stdout.write(usage);
		return 0;
	} catch (error) {
		if (error instanceof LocalPostgresError) {
			process.stderr.write(`${error.message}\n`);
			return 1;
		}
		if (!(error instanceof UsageError)) throw error;
		process.stderr.write(`${error.message}\n\n${usage}`);
		return 2;
	}
}

/** @returns whether everything was as expected */
async function soak({ minutes, rate, file }: Settings): Promise<boolean> {
	process.stdout.write('Starting ...\n');
	const stage = await setStage();
	const { kinds, close } = requestKinds(stage);
	const load = startLoad(kinds, rate);
	for (const { name, url, pid } of [stage.company, stage.personal]) {
		process.stdout.write(`${name} is process ${pid}, at ${url}\n`);
	}
	process.stdout.write(`Running for ${minutes} minutes, ${rate} requests a second. Ctrl-C ends it before.\n`);

	const samples: Sample[] = [];
	const sample = sampler(stage, load);
	// Every five seconds. In a short run more often, so that the chart has enough points.
	const pause = Math.min(5000, minutes * 3000);
	const complaints: string[] = [];
	const changes = setInterval(() => {
		stage.changeContact().catch((error) => complaints.push(`A contact could not be changed: ${error}`));
	}, 1000);
	const over = performance.now() + minutes * 60_000;
	const broken = stage.broken.then((what) => {
		complaints.push(what);
	});
	while (performance.now() < over && !interrupted.signal.aborted) {
		const waited = delay(Math.min(pause, over - performance.now()), undefined, { signal: interrupted.signal });
		await Promise.race([waited.catch(() => undefined), broken]);
		if (complaints.length > 0) break;
		try {
			samples.push(await sample());
		} catch (error) {
			complaints.push(`A sample could not be taken: ${error instanceof Error ? error.message : error}`);
		}
	}
	clearInterval(changes);
	await load.stop();
	close();
	const ended = complaints.length;
	const notInOrder = await stage.stop();
	// From here on the services end on purpose.
	complaints.splice(ended);
	complaints.push(...notInOrder);

	writeFileSync(file, chartOf(samples, `${minutes} minutes at ${rate} requests a second`));
	process.stdout.write(`${verdictOn(samples, load).join('\n')}\nThe chart is in ${resolve(file)}\n`);
	for (const complaint of complaints) process.stderr.write(`${complaint}\n`);
	// Interrupted before the first response: nothing has failed.
	const somethingCame = load.answered > 0 || interrupted.signal.aborted;
	return complaints.length === 0 && load.unexpected === 0 && somethingCame;
}
