import { execFile } from 'node:child_process';
import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';

const logger = new URL('../../packages/common/dist/observability/logger.js', import.meta.url).href;
const program = `
	const { createLogger } = await import('${logger}');
	createLogger({ name: 'test', level: 'info' }).info({ route: '/somewhere', status: 200 }, 'request');`;

/** Logs outside input in every part of a line that may contain it. */
const hostile = `
	const { createLogger } = await import('${logger}');
	const text = '\\u001b[2J\\u0007\\r\\b\\u007f\\u009b31m\\u202e\\u2066\\u2028 \\\\ "end"';
	const err = Object.assign(new Error(text), { code: text, cause: new Error(text) });
	createLogger({ name: 'test', level: 'info' }).warn({ err, text, [text]: { text } }, text);`;
const shown = /\\u001b\[2J\\u0007\\r\\b\\u007f\\u009b31m\\u202e\\u2066\\u2028 \\ "end"/;
const unsafe = /(?![\n\t])[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u;

/** What the program writes to its own terminal, which `script` creates. */
function onTerminal(env: Record<string, string>, source = program): Promise<string> {
	const command = `'${process.execPath}' --input-type=module --eval "$PROGRAM"`;
	return new Promise((resolve, reject) => {
		const child = execFile(
			'script',
			['--quiet', '--return', '--command', command, '/dev/null'],
			{ env: { PATH: process.env.PATH, TERM: 'xterm-256color', SHELL: '/bin/sh', PROGRAM: source, ...env } },
			(error, stdout) =>
				error === null
					? resolve(stdout)
					: reject(new Error(`script can't be run; this test needs it (Debian: bsdutils). ${error.message}`)),
		);
		child.stdin?.end();
	});
}

const colour = '\u001b[';

test('on a terminal a log entry is a readable line with the time and the name of the level', async () => {
	const text = await onTerminal({});
	expect(stripVTControlCharacters(text)).toMatch(
		/^\[\d\d:\d\d:\d\d\.\d{3}\] INFO \(test\): request \{"route":"\/somewhere","status":200\}\s*$/,
	);
	expect(text).toContain(colour);
});

test.each([{ NO_COLOR: '1' }, { TERM: 'dumb' }, { FORCE_COLOR: '0' }])('without colour for %o', async (env) => {
	const text = await onTerminal(env);
	expect(text).toContain('INFO (test): request');
	expect(text).not.toContain(colour);
});

test('elsewhere the log is JSON, even when colours are forced', async () => {
	const output = await new Promise<string>((resolve, reject) => {
		const args = ['--input-type=module', '--eval', program];
		execFile(process.execPath, args, { env: { FORCE_COLOR: '1' } }, (error, stdout) =>
			error === null ? resolve(stdout) : reject(error),
		);
	});
	expect(JSON.parse(output)).toMatchObject({ level: 'info', route: '/somewhere', msg: 'request' });
});

test('on a terminal control characters from outside are shown as escapes, never executed', async () => {
	const text = (await onTerminal({ NO_COLOR: '1' }, hostile)).replaceAll('\r\n', '\n');
	expect(text).toMatch(shown);
	expect(text).not.toMatch(unsafe);
});

test('elsewhere a log line with control characters is JSON of the same text, with all of them escaped', async () => {
	const output = await new Promise<string>((resolve, reject) => {
		execFile(process.execPath, ['--input-type=module', '--eval', hostile], (error, stdout) =>
			error === null ? resolve(stdout) : reject(error),
		);
	});
	expect(output).not.toMatch(unsafe);
	const text = '\u001b[2J\u0007\r\b\u007f\u009b31m\u202e\u2066\u2028 \\ "end"';
	expect(JSON.parse(output)).toMatchObject({ text, msg: text, err: { code: text }, [text]: { text } });
});
