import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command, InvalidArgumentError, Option } from 'commander';
import { compare, rowsOf } from './compare.js';
import { moveToLoadCore } from './cores.js';
import { startDatabase } from './database.js';
import { scenarios } from './scenarios.js';
import { baselineSide, checkoutSide } from './servers.js';

interface Options {
	against?: string;
	fastify?: true;
	only: string[];
	rounds: number;
	seconds: number;
	slowerCommits: number;
}

const root = fileURLToPath(new URL('../../..', import.meta.url));
const names = scenarios.map(({ name }) => name);

const program = new Command('bench')
	.description('Measures both services of this checkout beside baseline servers, or beside those of another checkout.')
	.option('--against <folder>', 'compare with the services of this checkout, which must be built', otherCheckout)
	.addOption(
		new Option('--fastify', 'compare lists and changes with Fastify alone, not with node:http').conflicts('against'),
	)
	.addOption(new Option('--only <name...>', 'only these scenarios').choices(names).default(names, 'all'))
	.option('--rounds <number>', 'pairs of new processes', atLeast(1), 5)
	.option('--seconds <number>', 'length of one measurement, of which a round has five', atLeast(0.1), 0.4)
	.option('--slower-commits <ms>', 'let each commit of PostgreSQL take this much longer', atLeast(0), 0)
	.allowExcessArguments(false)
	.exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
	.action(run);

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupted.abort());

try {
	await program.parseAsync();
} catch (error) {
	const message = error instanceof Error ? error.message : String(error);
	process.stderr.write(interrupted.signal.aborted ? 'interrupted\n' : `error: ${message}\n`);
	process.exitCode = 1;
}

async function run({ against, fastify, only, slowerCommits, ...options }: Options): Promise<void> {
	const { signal } = interrupted;
	const cleanup: (() => unknown)[] = [];
	try {
		const sideOf = async (checkout: string) => {
			progress(`preparing the database of ${checkout}`);
			return checkoutSide(checkout, await startDatabase(checkout, slowerCommits, cleanup, signal));
		};
		const ours = await sideOf(root);
		const baseline =
			against === undefined ? baselineSide(ours, fastify ? 'fastify-alone' : 'same-bytes') : await sideOf(against);
		const chosen = scenarios.filter(({ name }) => only.includes(name));
		moveToLoadCore();
		const figures = await compare({ ...options, ours, baseline, scenarios: chosen, cleanup, signal, progress });
		console.table(rowsOf(figures));
	} finally {
		for (const end of cleanup.reverse()) {
			try {
				await end();
			} catch (error) {
				process.stderr.write(`error: ${(error as Error).message}\n`);
			}
		}
	}
}

function progress(text: string): void {
	process.stderr.write(`${String(Math.round(process.uptime())).padStart(4)} s  ${text}\n`);
}

/** Package managers run a script in the folder of its package, and pass on where they were called. */
function otherCheckout(path: string): string {
	const folder = resolve(process.env.INIT_CWD ?? process.cwd(), path);
	if (!existsSync(join(folder, 'services/company-contacts/dist/main.js')))
		throw new InvalidArgumentError('There are no built services.');
	return folder;
}

function atLeast(min: number): (text: string) => number {
	return (text) => {
		const value = Number.parseFloat(text);
		if (value >= min) return value;
		throw new InvalidArgumentError(`It must be a number from ${min} on.`);
	};
}
