import { urlAs } from '@contacts/common/database/roles.js';
import { rolePassword } from './database.js';
import { toolOf } from './launcher.js';
import { environmentOf, startProcess } from './process.js';
import { type RunningService, startService } from './services.js';

/** The built synchroniser as a process. It makes one pass when it starts, and the next only on request. */
export function startSynchroniser(databaseUrl: string, env: Record<string, string>): Promise<RunningService> {
	return startService('crm-sync', {
		DATABASE_URL: urlAs(databaseUrl, 'crm-sync', rolePassword),
		BITRIX24_PLAN: 'enterprise',
		BITRIX24_INTERVAL_SECONDS: '86400',
		...env,
	});
}

export interface CommandOutcome {
	code: number | string;
	out: string;
	error: string;
}

export interface RunningCommand {
	/** Sends it a signal, as Ctrl-C does. */
	signal(name: NodeJS.Signals): void;
	outcome: Promise<CommandOutcome>;
}

/** Starts `contacts` as the operator would, with the operator's database role. */
export function startCommand(databaseUrl: string, args: string[], env: Record<string, string>): RunningCommand {
	const command = startProcess(process.execPath, [toolOf('cli'), ...args], {
		env: environmentOf({
			DATABASE_URL: urlAs(databaseUrl, 'operator', rolePassword),
			BITRIX24_PLAN: 'enterprise',
			...env,
		}),
	});
	const outcome = command.exit.then((code) => ({ code, out: command.stdout(), error: command.stderr() }));
	return { signal: command.kill, outcome };
}
