import { describe, expect, test } from 'vitest';
import { tableOf } from './table.js';

const columns = ['id', 'project', 'service', 'expires_at', 'name'];
const keys = [
	{ id: 1, project: 'acme', service: null, expires_at: null, name: null },
	{ id: 22, project: 'other', service: null, expires_at: '2027-01-31T00:00:00.000Z', name: 'the job of every night' },
];
const table = (records: readonly object[], width?: number) => tableOf(records, columns, width).join('\n');

describe('in a pipe a record is one line with all columns, whatever it holds', () => {
	test.each([0, 1, 2])('%s records', (count) => {
		expect(table(keys.slice(0, count)).split('\n')).toHaveLength(1 + count);
		for (const column of columns) expect(table(keys.slice(0, count)).split('\n')[0]).toContain(column);
	});

	test('the lines of a cell are joined', () => {
		expect(table([{ id: 1, name: ['a: 1', 'b: 2'] }])).toContain(' a: 1; b: 2');
	});
});

describe('on a terminal', () => {
	test('a column without any value is left out, and the last one wraps under itself', () => {
		expect(table(keys, 48)).toBe(
			[
				'id  project  expires_at            name',
				'1   acme     -                     -',
				'22  other    2027-01-31T00:00:00Z  the job of',
				'                                   every night',
			].join('\n'),
		);
	});

	test('the last column stands below its record when it has no room for a word', () => {
		expect(table(keys, 38)).toBe(
			[
				'id  project  expires_at',
				'    name',
				'1   acme     -',
				'22  other    2027-01-31T00:00:00Z',
				'    the job of every night',
			].join('\n'),
		);
	});

	test('a record is a list of its fields when they do not fit beside each other', () => {
		expect(table(keys.slice(1), 30)).toBe(
			[
				'id          22',
				'project     other',
				'expires_at  2027-01-31T00:00:00Z',
				'name        the job of every',
				'            night',
			].join('\n'),
		);
	});

	test.each([24, 38, 52, 80, 120])('of %s columns no line is longer than that, and no word is broken', (width) => {
		const words = ['contact', 'of', 'the', 'company', 'with', 'a', 'long-winded', 'explanation'];
		const records = Array.from({ length: 40 }, (_, index) => ({
			id: index,
			project: 'acme',
			service: index % 3 ? null : 'a service',
			name: words.slice(0, index % 9).join(' ') || null,
		}));
		const text = table(records, width);
		for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(width);
		for (const { name } of records) expect(text.replaceAll(/\s+/g, ' ')).toContain(name ?? '-');
	});
});
