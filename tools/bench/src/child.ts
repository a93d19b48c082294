import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Lifetime } from './lifetime.js';
import { programOf } from './servers.js';

/**
 * Runs one of this package's programs in a separate process. Sends it an order and passes on every message, until the
 * handler returns a result.
 *
 * @throws Error when it ends before that
 */
export async function runChild<Message, Result>(
	lifetime: Lifetime,
	program: string,
	order: object,
	take: (message: Message) => Result | undefined,
): Promise<Result> {
	const child = fork(programOf(program), [], { execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
	const exited = once(child, 'exit');
	const end = lifetime.own(async () => {
		child.kill('SIGKILL');
		await exited;
	});
	try {
		return await new Promise<Result>((resolve, reject) => {
			child.on('message', (message) => {
				try {
					const result = take(message as Message);
					if (result !== undefined) resolve(result);
				} catch (error) {
					reject(error);
				}
			});
			child.on('error', reject);
			child.on('exit', (code, signal) => reject(new Error(`${program} ended early (${code ?? signal})`)));
			child.send(order);
		});
	} finally {
		await end();
	}
}
