import { execFile } from 'node:child_process';
import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';

const logger = new URL('../../packages/common/dist/observability/logger.js', import.meta.url).href;

/** Logs outside input in every part of a line that may contain it. */
const program = `
	const { createLogger } = await import('${logger}');
	const text = '\\u001b[2J\\u0007\\r\\b\\u007f\\u009b31m\\u202e\\u2066\\u2028 \\\\ "end"';
	const err = Object.assign(new Error(text), { code: text, cause: new Error(text) });
	createLogger({ name: 'test', level: 'info' }).warn({ err, text, [text]: { text } }, text);`;
const shown = /\\u001b\[2J\\u0007\\r\\b\\u007f\\u009b31m\\u202e\\u2066\\u2028 \\ "end"/;
const unsafe = /(?![\n\t])[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u;

/** What the program writes to its terminal, which `script` creates. */
function onTerminal(more: Record<string, string> = {}): Promise<string> {
	const command = `'${process.execPath}' --input-type=module --eval "$PROGRAM"`;
	const env = { PATH: process.env.PATH, TERM: 'xterm-256color', SHELL: '/bin/sh', PROGRAM: program, ...more };
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
	const text = (await onTerminal({ NO_COLOR: '1' })).replaceAll('\r\n', '\n');
	expect(text).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] WARN \(test\): /);
	expect(text).toMatch(shown);
	expect(text).not.toMatch(unsafe);
});

test('on a terminal a log entry has colours', async () => {
	const text = await onTerminal();
	expect(text).toContain('\u001b[');
	expect(stripVTControlCharacters(text)).toContain('WARN (test): ');
});
