import { createRequire } from 'node:module';
import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { startProcess } from '@contacts/testing/process.js';
import { startServiceProcess } from '@contacts/testing/service-process.js';
import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';

const logger = createRequire(import.meta.url).resolve('@contacts/common/observability/logger.js');
const total = 1000;

test('SIGTERM loses no line: every request that got a response before it has one, and the last line is "stopped"', async () => {
	await addProject(database.sql, 'good', 'good-key');
	const service = startServiceProcess('personal-contacts', {
		DATABASE_URL: urlAs(database.url, 'personal-contacts', rolePassword),
	});
	const url = `${await service.listening()}/unknown`;
	await Promise.all(Array.from({ length: 100 }, () => fetch(url)));
	service.kill('SIGTERM');
	expect(await service.exit).toBe(0);
	const messages = service.log().map(({ msg }) => msg);
	expect(messages.filter((message) => message === 'request')).toHaveLength(100);
	expect(messages.at(-1)).toBe('stopped');
});

test('the last line is written, even if the process ends right after it', async () => {
	const script = `
		import { createLogger } from '${new URL(`file://${logger}`)}';
		createLogger({ name: 'test', level: 'info' }).info('last');`;
	const ends = Array.from({ length: 20 }, async () => {
		const child = startProcess(process.execPath, ['--input-type=module', '--eval', script]);
		expect(await child.exit).toBe(0);
		return child.stdout();
	});
	for (const output of await Promise.all(ends)) expect(output).toMatch(/"msg":"last"\}\n$/);
});

test('a full disk neither stops the process nor keeps it from ending', async () => {
	const script = `
		import { createLogger } from '${new URL(`file://${logger}`)}';
		const logger = createLogger({ name: 'test', level: 'info' });
		logger.info('first');
		// Long after the first write has failed.
		setTimeout(() => {
			logger.info('last');
			console.error('still there');
		}, 300);`;
	const command = 'exec "$0" --input-type=module --eval "$1" > /dev/full';
	const child = startProcess('sh', ['-c', command, process.execPath, script]);
	await child.waitForLine(/still there/);
	expect(await child.exit).toBe(0);
});

test.each([
	['an uncaught exception', 'throw new Error("uncaught");', 1],
	['an unhandled rejection', 'await Promise.reject(new Error("unhandled"));', 1],
	['process.exit', 'process.exit(3);', 3],
])('%s loses no line that was logged in the same turn of the event loop', async (_, end, code) => {
	const script = `
		import { createLogger } from '${new URL(`file://${logger}`)}';
		const logger = createLogger({ name: 'test', level: 'info' });
		for (let n = 1; n <= ${total}; n++) logger.info({ n }, 'line');
		${end}`;
	const child = startProcess(process.execPath, ['--input-type=module', '--eval', script]);
	expect(await child.exit).toBe(code);
	const numbers = child
		.stdout()
		.trimEnd()
		.split('\n')
		.map((line) => (JSON.parse(line) as { n: number }).n);
	expect(numbers).toEqual(Array.from({ length: total }, (_, index) => index + 1));
});
