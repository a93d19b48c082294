import { resolve } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { root, type Settings } from './bench.js';
import { scenarios } from './run-bench.js';
import type { SoakSettings } from './soak/soak.js';

interface Options {
	quick: boolean;
	rounds?: number;
	seconds?: number;
	only?: string[];
	json: string;
	profile?: string | true;
}

interface Runs {
	bench(settings: Settings): Promise<void>;
	soak(settings: SoakSettings): Promise<void>;
}

/** The command line. It passes the parsed options to a function, and throws instead of ending the process. */
export function createProgram(run: Runs): Command {
	const names = scenarios.map(({ name }) => name);
	const program = new Command('bench')
		.description('Measures both services against what Node.js and PostgreSQL can do at all, within one run.')
		.option('--quick', 'fewer and shorter rounds, to see that everything works', false)
		.option('--rounds <number>', 'rounds of each scenario (5; quick: 2)', numberUpTo(1000, 1, true))
		.option('--seconds <number>', 'length of one measurement (3; quick: 1)', numberUpTo(600, 0.1))
		.addOption(new Option('--only <name...>', 'these scenarios').choices(names))
		.option('--json <file>', 'where the result is written for programs', '.local/bench.json')
		.option('--profile [folder]', 'also write CPU profiles of our services (.local/profiles)')
		.addHelpText('after', `\nScenarios: ${names.map((name) => `"${name}"`).join(', ')}`)
		.exitOverride()
		.showHelpAfterError('(run with --help to see what it takes)')
		.action((options: Options) => run.bench(settingsOf(options)));
	program
		.command('soak')
		.description('Runs both services under a steady mixed load, and draws their memory, handles and connections.')
		.option('--minutes <number>', 'how long; fractions are allowed', numberUpTo(10_000, 0.01), 60)
		.option('--rate <number>', 'requests a second', numberUpTo(2000, 10), 200)
		.option('--file <path>', 'the SVG file that is written', 'soak.svg')
		.exitOverride()
		.showHelpAfterError()
		.addHelpText(
			'after',
			'\nExit codes: 0 all responses were as expected, 1 one was not or a part ended, 2 wrong usage.',
		)
		.action(({ file, ...given }: SoakSettings) => run.soak({ ...given, file: fromWhereItWasCalled(file) }));
	return program;
}

function settingsOf({ quick, only, profile, json, ...given }: Options): Settings {
	const seconds = given.seconds ?? (quick ? 1 : 3);
	return {
		rounds: given.rounds ?? (quick ? 2 : 5),
		seconds,
		warmUpSeconds: Math.min(1, seconds / 2),
		scenarios: only ?? scenarios.filter(({ long = false }) => !quick || !long).map(({ name }) => name),
		json: fromWhereItWasCalled(json),
		profiles: profile === undefined ? undefined : fromWhereItWasCalled(profile === true ? '.local/profiles' : profile),
	};
}

/** Package managers run a script in the folder of its package, and pass on where they were called. */
function fromWhereItWasCalled(path: string): string {
	return resolve(path.startsWith('.local/') ? root : (process.env.INIT_CWD ?? process.cwd()), path);
}

function numberUpTo(max: number, min: number, whole = false): (text: string) => number {
	return (text) => {
		const value = text.trim() === '' ? Number.NaN : Number(text);
		if (value >= min && value <= max && (!whole || Number.isInteger(value))) return value;
		throw new InvalidArgumentError(`It must be a ${whole ? 'whole ' : ''}number from ${min} to ${max}.`);
	};
}
