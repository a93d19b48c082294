import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { BenchDatabase } from './database.js';
import type { Lifetime } from './lifetime.js';
import type { Comparison } from './report.js';
import { type RunningServer, type ServerCommand, startServer } from './servers.js';

export const root = fileURLToPath(new URL('../../..', import.meta.url));

export interface Settings {
	rounds: number;
	/** Seconds of one measurement. */
	seconds: number;
	warmUpSeconds: number;
	/** Names of scenarios. */
	scenarios: string[];
	/** Absolute path of the result. */
	json: string;
	/** Absolute path of a folder for CPU profiles of our services. Undefined: no profiles. */
	profiles: string | undefined;
}

/** The context of a scenario. */
export interface Bench {
	settings: Settings;
	database: BenchDatabase;
	lifetime: Lifetime;
	/** What was measured again, and why: for the table. */
	repeated: string[];
	progress(text: string): void;
}

export interface Scenario {
	name: string;
	/** Whether `--quick` skips it. */
	long?: boolean | undefined;
	run(bench: Bench): Promise<Comparison[]>;
}

export type ServiceName = 'personal-contacts' | 'company-contacts';

/** The rate limit is on, but too high to reach. */
const limits = { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000000' };

/** The settings of a service in production. All others have their default. */
export function environmentOf({ database }: Pick<Bench, 'database'>, name: ServiceName): Record<string, string> {
	return { DATABASE_URL: database.urlFor(name), LOG_LEVEL: 'info', ...(name === 'company-contacts' ? limits : {}) };
}

/** The built service, as it runs in production. */
export function startProgram(
	bench: Pick<Bench, 'database' | 'lifetime'>,
	name: ServiceName,
	flags: string[],
	more: Pick<ServerCommand, 'detached' | 'keepLast'> = {},
): Promise<RunningServer> {
	const main = fileURLToPath(import.meta.resolve(`@contacts/${name}/main.js`));
	return startServer(bench.lifetime, { args: [...flags, main], env: environmentOf(bench, name), ...more });
}

/** The same, with a profile of the scenario if profiles are on. */
export function startService(bench: Bench, name: ServiceName, scenario: string): Promise<RunningServer> {
	return startProgram(bench, name, profileFlags(bench.settings.profiles, `${name} ${scenario}`));
}

/** One of the baseline servers of this package. */
export function startBaseline(
	{ lifetime }: Bench,
	[program, ...args]: readonly string[],
	env: Record<string, string> = {},
): Promise<RunningServer> {
	const main = fileURLToPath(new URL(`../dist/baselines/${program}.js`, import.meta.url));
	return startServer(lifetime, { args: [main, ...args], env });
}

function profileFlags(folder: string | undefined, name: string): string[] {
	if (folder === undefined) return [];
	mkdirSync(folder, { recursive: true });
	const file = `${name.replace(/[^a-z0-9]+/gi, '-')}.cpuprofile`;
	return ['--cpu-prof', `--cpu-prof-dir=${folder}`, `--cpu-prof-name=${file}`];
}
