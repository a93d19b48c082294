import type { Command } from '../command.js';
import type { Finding } from '../doctor/check.js';
import { type Line, type OutputOptions, printResult, styledState } from '../output.js';
import { markIncomplete } from '../streams.js';

export function addDoctorCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('doctor')
		.description('check everything that the services need, and say how to fix each problem')
		.option('--json', 'print the findings as JSON')
		.addHelpText(
			'after',
			'\nIt checks the database, its settings, roles, rights, schema and clock; Redis if REDIS_URL is set; the CRM if\n' +
				'BITRIX24_WEBHOOK_URL is set; and the synchroniser. It changes nothing. Exit code 1: there is a problem.',
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
	const line = [styledState(state.padEnd(8)), ` ${check.padEnd(12)} ${message}`];
	return advice === undefined ? [line] : [line, `${' '.repeat(22)}-> ${advice}`];
}
