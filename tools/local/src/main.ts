import { describeDatabaseError } from '@contacts/common/database/errors.js';
import { escapeControls } from '@contacts/common/observability/escape-controls.js';
import { ConfigError } from '@contacts/common/process/config.js';
import { LocalPostgresError } from '@contacts/local-postgres/binaries.js';
import { StartError } from './child-service.js';
import { demoKey, demoProject } from './demo.js';
import { launch, type Running } from './launcher.js';
import { readSettings, type Settings } from './settings.js';
import { watchWrappers } from './wrappers.js';

let running: Running | undefined;
let stopping = false;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
watchWrappers(stop);

try {
	const settings = readSettings(process.env, process.argv.slice(2));
	process.stdout.write('Starting ...\n');
	running = await launch(settings);
	if (stopping) await finish(0);
	process.stdout.write(welcome(running, settings));
	void running.broken.then(async (what) => {
		if (stopping) return;
		stopping = true;
		process.stderr.write(`${what} has ended by itself: stopping the rest. Its last lines are above.\n`);
		await finish(1);
	});
} catch (error) {
	process.stderr.write(`${escapeControls(describe(error), { keep: '\n' })}\n`);
	process.exit(1);
}

/** Stops gracefully. Ignores a repeated signal, because package managers send the same one twice. */
function stop(): void {
	if (stopping) return;
	stopping = true;
	// Still starting: the start checks for the signal when it is done.
	if (running !== undefined) void finish(0);
}

async function finish(code: number): Promise<void> {
	process.stdout.write('Stopping ...\n');
	await running?.stop();
	process.stdout.write('Stopped.\n');
	process.exit(code);
}

function welcome({ demo, crm }: Running, { companyPort, personalPort }: Settings): string {
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
		...(demo ? [] : ['No demo credentials here. Create a project and a key: npx -y pnpm@12 contacts --help', '']),
		'List the contacts of company 1:',
		`  curl '${company}/api/company_contacts.list?company_id=1&${credentials}'`,
		'',
		'Save the user of a personal chat:',
		`  curl -X POST '${personal}/api/personal_contacts?${credentials}' -H 'Content-Type: application/json' -d '{"chat_id": 5550001, "username": "ivan", "name": "Ivan Petrov", "birth_date": "1990-05-17"}'`,
		'',
		...(crm === undefined
			? []
			: [
					'A stand-in of Bitrix24 with made-up contacts, which the synchroniser mirrors:',
					`  webhook      ${crm.webhookUrl}`,
					`  synchroniser ${crm.synchroniserUrl}`,
					'',
				]),
		'Ready. Ctrl-C stops everything.',
		'',
	];
	return lines.join('\n');
}

function describe(error: unknown): string {
	if (error instanceof ConfigError) return error.lines.join('\n');
	if (error instanceof StartError || error instanceof LocalPostgresError) return error.message;
	return describeDatabaseError(error) ?? (error instanceof Error ? (error.stack ?? error.message) : String(error));
}
