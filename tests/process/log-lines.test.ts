import { execFileSync } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { addProject } from '@contacts/testing/app.js';
import { environmentOf, startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, vi } from 'vitest';
import { startServiceProcess } from '../services.js';

const { resolve } = createRequire(import.meta.url);
const makeLogger = `
	import { createLogger } from '${new URL(`file://${resolve('@contacts/common/observability/logger.js')}`)}';
	const logger = createLogger({ name: 'test', level: 'info' });`;
const total = 1000;

test('SIGTERM loses no line: every request that got a response before it has one, and the last line is "stopped"', async () => {
	await addProject(database.sql, 'good', 'good-key');
	const service = startServiceProcess('personal-contacts');
	const url = `${await service.listening()}/unknown`;
	await Promise.all(Array.from({ length: 100 }, () => fetch(url)));
	service.kill('SIGTERM');
	expect(await service.exit).toBe(0);
	const messages = service.log().map(({ msg }) => msg);
	expect(messages.filter((message) => message === 'request')).toHaveLength(100);
	expect(messages.at(-1)).toBe('stopped');
});

test('a warning of Node.js is a line of the log, and nothing else is written', async () => {
	// A signal on which no service stops.
	const warn = 'process.on("SIGCONT", () => process.emitWarning("canary"))';
	const service = startServiceProcess('personal-contacts', {
		NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(warn)}`,
	});
	await service.listening();
	service.kill('SIGCONT');
	await service.waitForLine(/canary/);
	service.kill('SIGTERM');
	expect(await service.exit).toBe(0);
	expect(service.log()).toContainEqual(expect.objectContaining({ level: 'warn', msg: 'warning of Node.js' }));
	expect(service.stderr()).toBe('');
});

test('a full disk neither stops the process nor keeps it from ending', async () => {
	const script = `
		${makeLogger}
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
		${makeLogger}
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

/**
 * Runs a program whose standard output is a pipe: `pipe` is its path. Nobody reads from it yet.
 *
 * @param redirection `1<>` opens the pipe at once and keeps it open, `>` waits for a reader
 */
async function startOnPipe(script: string, redirection: '1<>' | '>' = '1<>', env: Record<string, string> = {}) {
	const pipe = join(await temporaryFolder(), 'pipe');
	execFileSync('mkfifo', [pipe]);
	const command = `exec "$0" --input-type=module --eval "$1" ${redirection} "$2"`;
	const source = `
		${makeLogger}
		const pipe = '${pipe}';
		const pad = 'x'.repeat(10_000);
		${script}`;
	const args = ['-c', command, process.execPath, source, pipe];
	return { child: startProcess('sh', args, { env: environmentOf(env) }), pipe };
}

test('lines for which a stopped reader leaves no room are counted, and reported once it reads again', async () => {
	const { child, pipe } = await startOnPipe(`
		for (let n = 0; n < 2_000; n++) logger.info({ pad, n }, 'line');
		process.on('SIGUSR2', () => logger.info('later'));
		setInterval(() => undefined, 60_000);
		console.error('logged');`);
	await child.waitForLine(/logged/);
	let text = '';
	const reader = createReadStream(pipe, { encoding: 'utf8' }).on('data', (read) => {
		text += read;
	});
	await vi.waitUntil(() => text.includes('dropped'), { timeout: 60_000 });
	child.kill('SIGUSR2');
	await vi.waitUntil(() => text.endsWith('later"}\n'), { timeout: 60_000 });
	await child.stop('SIGKILL');
	reader.destroy();
	const all = text
		.trimEnd()
		.split('\n')
		.map((line) => JSON.parse(line) as { n?: number; dropped?: number; level: string; msg: string });
	const kept = all.slice(0, -2);
	expect(kept.map(({ n }) => n)).toEqual(Array.from(kept.keys()));
	expect(kept.length).toBeGreaterThan(1_000);
	expect(all.at(-2)).toMatchObject({ level: 'warn', name: 'test', dropped: 2_000 - kept.length });
	expect(all.at(-1)?.msg).toBe('later');
});

test('lines that nobody can read any more are dropped and not tried again, and their number is reported to the next reader', async () => {
	const { child, pipe } = await startOnPipe(
		`
		import { stat } from 'node:fs/promises';
		import { setTimeout as delay } from 'node:timers/promises';
		process.once('SIGUSR2', async () => {
			for (let n = 0; n < 100; n++) logger.info('lost');
			// By then the write is requested. It ends before what is requested after it.
			await delay(100);
			await stat('/');
			process.once('SIGUSR2', () => logger.info('later'));
			console.error('written');
		});
		logger.info('first');
		setInterval(() => undefined, 60_000);`,
		'>',
		// With one thread, `stat` ends after the write that was requested before it.
		{ UV_THREADPOOL_SIZE: '1' },
	);
	const read = (lines: number) => startProcess('sh', ['-c', `exec < "$0"; echo open >&2; exec head -n ${lines}`, pipe]);
	const first = read(1);
	expect(await first.exit).toBe(0);
	child.kill('SIGUSR2');
	await child.waitForLine(/written/);
	const next = read(2);
	await next.waitForLine(/open/);
	child.kill('SIGUSR2');
	expect(await next.exit).toBe(0);
	await child.stop('SIGKILL');
	const [later, report] = next
		.stdout()
		.trimEnd()
		.split('\n')
		.map((line) => JSON.parse(line));
	expect(later).toMatchObject({ msg: 'later' });
	expect(report).toMatchObject({ level: 'warn', dropped: 100 });
});
