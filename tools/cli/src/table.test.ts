import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { cellOf, createTable, fitWidths, withShortTimes, wrap } from './table.js';

const lines = (rows: string[][], lineWidth: number) =>
	createTable(rows[0]?.length ?? 0, stringWidth)
		.layOut(rows, lineWidth)
		.flatMap((row) => row.map((texts) => texts.join('  ').trimEnd()));

describe('a table', () => {
	test('keeps each row in one line where it fits', () => {
		expect(
			lines(
				[
					['id', 'name'],
					['1', 'Ann'],
					['20', 'Boris B'],
				],
				11,
			),
		).toEqual(['id  name', '1   Ann', '20  Boris B']);
	});

	test('continues a long last value in its column, or below the row where the column would be narrow', () => {
		const rows = [['7', 'made', 'one two three four five six seven eight']];
		expect(lines(rows, 40)).toEqual(['7  made  one two three four five six', '         seven eight']);
		expect(lines(rows, 24)).toEqual(['7  made', '   one two three four', '   five six seven eight']);
		expect(lines([['7', 'made', '-']], 24)).toEqual(['7  made  -']);
	});

	test('breaks no time and no ID, however narrow the terminal is', () => {
		const [time, id] = ['2026-11-22 18:57', '-9223372036854775808'];
		const printed = lines([[id, time, 'contacts_operator', 'x'.repeat(100)]], 30).join('\n');
		expect(printed).toContain(id);
		expect(printed).toContain(time);
		expect(printed.replaceAll(/\s/g, '')).toContain('x'.repeat(100));
	});

	test('measures wide characters, and breaks between them', () => {
		expect(wrap('王小明王小明', 4, stringWidth)).toEqual(['王小', '明王', '小明']);
	});

	test('shrinks the widest columns first, and none below its longest word', () => {
		expect(fitWidths([10, 30, 20], [5, 5, 5], 100)).toEqual([10, 30, 20]);
		expect(fitWidths([10, 30, 20], [5, 5, 5], 54)).toEqual([10, 20, 20]);
		expect(fitWidths([10, 30, 20], [5, 5, 5], 34)).toEqual([10, 10, 10]);
		expect(fitWidths([10, 30, 20], [10, 30, 5], 34)).toEqual([10, 30, 5]);
		expect(fitWidths([], [], 10)).toEqual([]);
	});
});

test('times are shown to the minute in UTC, in a cell and within a text', () => {
	expect(cellOf('2026-11-22T18:57:31Z')).toBe('2026-11-22 18:57');
	expect(withShortTimes('from 2026-11-22T18:57:31.123456+02:00 on')).toBe('from 2026-11-22 16:57 on');
	expect([cellOf(null), cellOf(false), cellOf(true), cellOf(0), cellOf('a\u001b')]).toEqual([
		'',
		'',
		'yes',
		'0',
		'a\\u001b',
	]);
});
