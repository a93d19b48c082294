import { expect, test } from 'vitest';
import { escapeControls, escapeJsonLines } from './escape-controls.js';

test('control characters, and those that reverse or break a line, are escaped', () => {
	for (const code of [
		0x00, 0x07, 0x09, 0x0a, 0x0d, 0x1b, 0x7f, 0x80, 0x9b, 0x9f, 0x061c, 0x200e, 0x200f, 0x2028, 0x2029,
	]) {
		const escaped = `\\u${code.toString(16).padStart(4, '0')}`;
		expect(escapeControls(`a${String.fromCharCode(code)}b`)).toBe(`a${escaped}b`);
	}
	expect(escapeControls('\u202a\u202e\u2066\u2069')).toBe('\\u202a\\u202e\\u2066\\u2069');
});

test('all other text stays unchanged, including line breaks where they are kept', () => {
	const text = 'Zoë 王小明 🙂 👩\u200d👧 \u00a0 e\u0301 "\\"';
	expect(escapeControls(text)).toBe(text);
	expect(escapeControls(`${text}\n\u001b`, { keep: '\n' })).toBe(`${text}\n\\u001b`);
});

test('JSON keeps its value, and a line without such characters stays unchanged', () => {
	const value = { text: 'C1 \u009b, \u007f, bidi \u202e, lines \u2028\n\t\u001b, 王' };
	const line = `${JSON.stringify(value)}\n`;
	const escaped = escapeJsonLines(line + line);
	expect(escaped).not.toMatch(/(?!\n)[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u);
	expect(
		escaped
			.trimEnd()
			.split('\n')
			.map((each) => JSON.parse(each)),
	).toEqual([value, value]);
	for (const plain of ['{"a":"b"}\n', '{"a":"王"}\n']) expect(escapeJsonLines(plain)).toBe(plain);
});
