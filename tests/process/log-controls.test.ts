import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const logger = new URL('../../packages/common/dist/observability/logger.js', import.meta.url).href;

/** Logs outside input in every part of a line that may contain it. */
const program = `
	const { createLogger } = await import('${logger}');
	const text = '\\u001b[2J\\u0007\\r\\b\\u007f\\u009b31m\\u202e\\u2066\\u2028 \\\\ "end"';
	const err = Object.assign(new Error(text), { code: text, cause: new Error(text) });
	createLogger({ name: 'test', level: 'info' }).warn({ err, text, [text]: { text } }, text);`;

test('a log entry is a line of JSON, in which every control character from outside is escaped', async () => {
	const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program]);
	expect(stdout).not.toMatch(/(?![\n])[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u);
	const text = '\u001b[2J\u0007\r\b\u007f\u009b31m\u202e\u2066\u2028 \\ "end"';
	const err = { code: text, message: text, cause: { message: text } };
	expect(JSON.parse(stdout)).toMatchObject({ level: 'warn', text, msg: text, err, [text]: { text } });
});
