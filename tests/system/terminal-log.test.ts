import { execFile } from 'node:child_process';
import { expect, test } from 'vitest';

const logger = new URL('../../packages/common/dist/observability/logger.js', import.meta.url).href;

/** Logs outside input in every part of a line that may contain it. */
const program = `
	const { createLogger } = await import('${logger}');
	const text = '\\u001b[2J\\u0007\\r\\b\\u007f\\u009b31m\\u202e\\u2066\\u2028 \\\\ "end"';
	const err = Object.assign(new Error(text), { code: text, cause: new Error(text) });
	createLogger({ name: 'test', level: 'info' }).warn({ err, text, [text]: { text } }, text);`;
const shown = /\\+u001b\[2J\\+u0007\\+r\\+b\\+u007f\\+u009b31m\\+u202e\\+u2066\\+u2028/g;
const unsafe = /(?![\n\t])[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u;

/** What the program writes to its terminal, which `script` creates. */
function onTerminal(): Promise<string> {
	const command = `'${process.execPath}' --input-type=module --eval "$PROGRAM"`;
	const env = { PATH: process.env.PATH, TERM: 'xterm-256color', SHELL: '/bin/sh', PROGRAM: program, NO_COLOR: '1' };
	return new Promise((resolve, reject) => {
		const child = execFile(
			'script',
			['--quiet', '--return', '--command', command, '/dev/null'],
			{ env },
			(error, stdout) => (error === null ? resolve(stdout) : reject(error)),
		);
		child.stdin?.end();
	});
}

test('on a terminal a log entry is a readable line, and control characters from outside are shown as escapes', async () => {
	const text = (await onTerminal()).replaceAll('\r\n', '\n');
	expect(text).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] WARN \(test\): /);
	// The message, a field, a name of a field and the field below it, and of the error: its message, its code and its cause.
	expect(text.match(shown)).toHaveLength(7);
	expect(text).not.toMatch(unsafe);
});

test('elsewhere a log entry is a line of JSON with the same text, and every control character in it is escaped', async () => {
	const output = await new Promise<string>((resolve, reject) => {
		execFile(process.execPath, ['--input-type=module', '--eval', program], (error, stdout) =>
			error === null ? resolve(stdout) : reject(error),
		);
	});
	expect(output).not.toMatch(unsafe);
	const text = '\u001b[2J\u0007\r\b\u007f\u009b31m\u202e\u2066\u2028 \\ "end"';
	const err = { code: text, message: text, cause: { message: text } };
	expect(JSON.parse(output)).toMatchObject({ level: 'warn', text, msg: text, err, [text]: { text } });
});
