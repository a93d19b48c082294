import { describeDatabaseError } from '@contacts/common/database/errors.js';
import { escapeControls } from '@contacts/common/observability/escape-controls.js';
import { ConfigError } from '@contacts/common/process/config.js';
import { LocalPostgresError } from '@contacts/local-postgres/local-postgres.js';
import { MigrationError } from '@contacts/migrations/migrate.js';
import { demoKey, demoProject } from './demo.js';
import { launch } from './launcher.js';
import type { StopSteps } from './local-database.js';
import { watchPackageManagers } from './package-managers.js';
import { restartOnChange } from './restart-on-change.js';
import { readSettings, type Settings } from './settings.js';

const stopSteps: StopSteps = [];
let stopping = false;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
watchPackageManagers(stop);

try {
	const unknown = process.argv.slice(2).find((argument) => argument !== '--watch');
	if (unknown !== undefined) throw new ConfigError([`start takes only --watch, but was given ${unknown}.`]);
	const settings = readSettings(process.env);
	process.stdout.write('Starting ...\n');
	const { services, startServices, databaseEnded } = await launch(settings, stopSteps);
	const firstEnd = Promise.race([
		databaseEnded.then(() => 'the database'),
		process.argv.includes('--watch') ? restartOnChange(services, startServices) : services.ended,
	]);
	if (!stopping) process.stdout.write(welcome(settings));
	const ended = await firstEnd;
	// While it stops, the parts end one after the other.
	if (!stopping) await stopAfterFailure(`${ended} has ended by itself: stopping the rest. Its last lines are above.`);
} catch (error) {
	// While it stops, the start fails because its parts end.
	if (!stopping) await stopAfterFailure(describe(error));
}

/** Stops gracefully, also during the start. Ignores a repeated signal, because package managers send the same one twice. */
async function stop(): Promise<void> {
	if (stopping) return;
	stopping = true;
	process.stdout.write('Stopping ...\n');
	await stopParts();
	process.stdout.write('Stopped.\n');
	process.exit(0);
}

async function stopAfterFailure(message: string): Promise<void> {
	stopping = true;
	process.stderr.write(`${escapeControls(message, { keep: '\n' })}\n`);
	await stopParts();
	process.exit(1);
}

/** Stops what was started last first, so the database ends last. */
async function stopParts(): Promise<void> {
	for (let step = stopSteps.pop(); step !== undefined; step = stopSteps.pop()) await step();
}

function welcome({ companyPort, personalPort, databaseUrl }: Settings): string {
	const demo = databaseUrl === undefined;
	const credentials = demo ? `project=${demoProject}&api_key=${demoKey}` : 'project=CODE&api_key=KEY';
	const company = `http://127.0.0.1:${companyPort}`;
	const personal = `http://127.0.0.1:${personalPort}`;
	const lines = [
		'',
		`company-contacts   ${company}`,
		`personal-contacts  ${personal}`,
		'',
		`API reference, to read and to try: ${company}/docs and ${personal}/docs`,
		'',
		...(demo ? [] : ['Your database has no demo. Create a project and a key: npx -y pnpm@12 contacts --help', '']),
		'List the contacts of company 1:',
		`  curl '${company}/api/company_contacts.list?company_id=1&${credentials}'`,
		'',
		'Save the user of a personal chat:',
		`  curl -X POST '${personal}/api/personal_contacts?${credentials}' -H 'Content-Type: application/json' -d '{"chat_id": 5550001, "username": "ivan", "name": "Ivan Petrov", "birth_date": "1990-05-17"}'`,
		'',
		'Ready. Ctrl-C stops everything.',
		'',
	];
	return lines.join('\n');
}

function describe(error: unknown): string {
	if (error instanceof ConfigError) return error.lines.join('\n');
	if (error instanceof LocalPostgresError || error instanceof MigrationError) return error.message;
	const known = describeDatabaseError(error, 'migrate');
	if (known !== undefined) return known;
	// The system's errors name what failed and the reason.
	if (error instanceof Error && 'syscall' in error) return error.message;
	return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
