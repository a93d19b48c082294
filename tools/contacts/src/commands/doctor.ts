import type { Command } from '../command.js';
import type { Finding } from '../doctor/check.js';
import { type Line, type OutputOptions, printResult, styledState } from '../output.js';
import { markIncomplete } from '../streams.js';

export function addDoctorCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('doctor')
		.description('check everything that the services need, and say what to do where something is wrong')
		.option('--json', 'print the findings as JSON')
		.addHelpText(
			'after',
			'\nIt looks at the database, its settings, roles, rights, schema and clock, at Redis where REDIS_URL is set, at the CRM\n' +
				'where BITRIX24_WEBHOOK_URL is set, and at the synchroniser. It changes nothing. Exit code 1: something is wrong.',
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
