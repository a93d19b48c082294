import type { Command } from 'commander';
import { CommandError } from '../errors.js';
import { type Context, examples, type OutputOptions } from '../terminal/output.js';

export function addDoctorCommand(program: Command, { environment, output }: Context): void {
	program
		.command('doctor')
		.summary('check everything that the services need, and say how to fix each problem')
		.description(
			'Check the database, its settings, encoding, schema, owner and roles; the synchroniser; Redis if REDIS_URL is set; and the CRM if BITRIX24_WEBHOOK_URL is set. It changes nothing. Exit code 1: there is a problem.',
		)
		.option('--json', 'print JSON')
		.addHelpText('after', examples('contacts doctor', 'contacts doctor --json | jq .findings'))
		.action(async (options: OutputOptions) => {
			// Loaded only here, so that other commands do not load the synchroniser and Redis.
			const { examine } = await import('../doctor/doctor.js');
			const findings = await examine(environment);
			const problems = findings.filter(({ state }) => state === 'problem').length;
			if (options.json) output.result({ ok: problems === 0, findings }, '', options);
			else
				for (const { check, state, message, advice } of findings) {
					output.entry(`${state.padEnd(9)}${check.padEnd(14)}`, message);
					if (advice !== undefined) output.entry(`${' '.repeat(23)}-> `, advice);
				}
			if (problems > 0) throw new CommandError(`The doctor has found a problem: ${problems} in all.`);
		});
}
