import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { urlAs } from '@contacts/common/database/roles.js';
import { rolePassword } from '@contacts/common/testing/database.js';
import { vi } from 'vitest';
import { type RunningService, run } from './processes.js';

const command = fileURLToPath(new URL('../../tools/contacts/dist/main.js', import.meta.url));
const program = fileURLToPath(new URL('../../services/company-contacts/dist/sync/main.js', import.meta.url));

/** The built synchroniser as a process. It makes one pass when it starts, and the next only on request. */
export async function startSynchroniser(databaseUrl: string, env: Record<string, string>): Promise<RunningService> {
	const running = await run(process.execPath, [program], {
		PATH: process.env.PATH,
		DATABASE_URL: urlAs(databaseUrl, 'company-contacts-sync', rolePassword),
		BITRIX24_PLAN: 'enterprise',
		BITRIX24_INTERVAL_SECONDS: '86400',
		PORT: '0',
		...env,
	});
	const address = /Server listening at (http:[^"]+)"/;
	await vi.waitUntil(() => address.test(running.output()), { timeout: 20_000 });
	return { ...running, url: address.exec(running.output())?.[1] ?? '' };
}

export interface CommandOutcome {
	code: number | null;
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
	const child = spawn(process.execPath, [command, ...args], {
		env: {
			PATH: process.env.PATH,
			DATABASE_URL: urlAs(databaseUrl, 'operator', rolePassword),
			BITRIX24_PLAN: 'enterprise',
			...env,
		},
		stdio: ['ignore', 'pipe', 'pipe'],
	});
	const outcome = Promise.all([child.stdout.toArray(), child.stderr.toArray(), once(child, 'exit')]).then(
		([out, error, [code]]) => ({ code: code as number | null, out: out.join(''), error: error.join('') }),
	);
	return { signal: (name) => void child.kill(name), outcome };
}
