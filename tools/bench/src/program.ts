import { resolve } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { root, type Settings } from './bench.js';
import { scenarios } from './scenarios/all.js';
import { million } from './scenarios/million.js';

interface Options {
	quick: boolean;
	rounds?: number;
	seconds?: number;
	only?: string[];
	million?: boolean;
	json: string;
	profile?: string | true;
}

/** The command line. It passes the parsed options to `run`, and throws instead of ending the process. */
export function createProgram(run: (settings: Settings) => Promise<void>): Command {
	const names = scenarios.map(({ name }) => name);
	return new Command('bench')
		.description('Measures both services against what Node.js and PostgreSQL can do at all, within one run.')
		.option('--quick', 'fewer and shorter rounds, to see that everything works', false)
		.option('--rounds <number>', 'rounds of each scenario (5; quick: 2)', positive(1000, true))
		.option('--seconds <number>', 'length of one measurement (3; quick: 1)', positive(600, false))
		.addOption(new Option('--only <name...>', 'these scenarios').choices(names))
		.option('--million', 'the list of 1,000,000 contacts as well, with --quick too')
		.option('--no-million', 'without the list of 1,000,000 contacts')
		.option('--json <file>', 'where the result is written for programs', '.local/bench.json')
		.option('--profile [folder]', 'also write CPU profiles of our services (.local/profiles)')
		.addHelpText('after', `\nScenarios: ${names.map((name) => `"${name}"`).join(', ')}`)
		.exitOverride()
		.showHelpAfterError('(run with --help to see what it takes)')
		.action((options: Options) => run(settingsOf(options)));
}

function settingsOf({ quick, only, million: withMillion, profile, json, ...given }: Options): Settings {
	const seconds = given.seconds ?? (quick ? 1 : 3);
	return {
		rounds: given.rounds ?? (quick ? 2 : 5),
		seconds,
		warmUpSeconds: Math.min(1, seconds / 2),
		scenarios: only ?? usualScenarios(quick, withMillion),
		json: fromWhereItWasCalled(json),
		profiles: profile === undefined ? undefined : fromWhereItWasCalled(profile === true ? '.local/profiles' : profile),
	};
}

function usualScenarios(quick: boolean, withMillion = !quick): string[] {
	const usual = scenarios.filter((scenario) => (scenario === million ? withMillion : !quick || !scenario.long));
	return usual.map(({ name }) => name);
}

/** Package managers run a script in the folder of its package, and pass on where they were called. */
function fromWhereItWasCalled(path: string): string {
	return resolve(path.startsWith('.local/') ? root : (process.env.INIT_CWD ?? process.cwd()), path);
}

function positive(max: number, whole: boolean): (text: string) => number {
	return (text) => {
		const value = Number(text);
		if (text.trim() === '' || !(value > 0 && value <= max) || (whole && !Number.isInteger(value))) {
			throw new InvalidArgumentError(`It must be a ${whole ? 'whole ' : ''}number above 0, at most ${max}.`);
		}
		return value;
	};
}
