import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { sampleFieldNames } from './sample-contacts.js';

const main = fileURLToPath(new URL('../../dist/bitrix24/main.js', import.meta.url));

function start(environment: Record<string, string>): ChildProcess {
	const { PATH } = process.env;
	const child = fork(main, [], {
		env: { PATH, ...environment },
		stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
		execArgv: [],
	});
	onTestFinished(() => void child.kill('SIGKILL'));
	return child;
}

/** The one line that it prints. */
async function firstLine(child: ChildProcess): Promise<string> {
	if (child.stdout === null) throw new Error('no output');
	const [line] = await once(createInterface(child.stdout), 'line');
	return line as string;
}

it.each(['SIGTERM', 'disconnect'] as const)('the program serves made-up contacts until %s', async (end) => {
	const child = start({ STAND_IN_CONTACTS: '70' });
	const { webhookUrl, fields } = JSON.parse(await firstLine(child));
	expect(fields).toEqual(sampleFieldNames);
	const response = await fetch(`${webhookUrl}crm.item.list?entityTypeId=3`);
	expect(await response.json()).toMatchObject({ total: 70, next: 50 });
	const exit = once(child, 'exit');
	if (end === 'SIGTERM') child.kill('SIGTERM');
	else child.disconnect();
	expect(await exit).toEqual([0, null]);
});

it.each([
	[{ PORT: 'many' }, 'PORT must be a whole number from 0 to 65535.\n'],
	[{ STAND_IN_CONTACTS: '-1' }, 'STAND_IN_CONTACTS must be a whole number from 0 to 1000000.\n'],
])('the program refuses %j in one line', async (environment, message) => {
	const child = start(environment as Record<string, string>);
	if (child.stderr === null) throw new Error('no output');
	const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
	expect([code, said]).toEqual([1, message]);
});
