import type { Command } from '../command.js';
import type { Finding } from '../doctor/check.js';
import { hanging, type Line, type OutputOptions, printResult } from '../output.js';
import { markIncomplete } from '../streams.js';

export function addDoctorCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('doctor')
		.description('check everything that the services need, and say how to fix each problem')
		.option('--json', 'print the findings as JSON')
		.notes(
			'It checks the database, its settings, encoding, clock, schema, owner and roles; keys that expire within 14 days or are unused for 90; the synchroniser; Redis if REDIS_URL is set; and the CRM if BITRIX24_WEBHOOK_URL is set. It changes nothing. Times are in UTC. Exit code 1: there is a problem.',
		)
		.examples('contacts doctor', 'contacts doctor --json | jq .findings')
		.action(async (options: OutputOptions) => {
			// Loaded only here, so that other commands do not load the synchroniser and Redis.
			const { examine } = await import('../doctor/doctor.js');
			const findings = await examine(environment, Date.now);
			const ok = findings.every(({ state }) => state !== 'problem');
			printResult({ ok, findings }, findings.flatMap(describe), options);
			if (!ok) markIncomplete();
		});
}

function describe({ check, state, message, advice }: Finding): Line[] {
	const lines = hanging([state.padEnd(9), check.padEnd(14)], message);
	return advice === undefined ? lines : [...lines, ...hanging([`${' '.repeat(23)}-> `], advice)];
}
