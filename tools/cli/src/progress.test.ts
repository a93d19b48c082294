import { execFileSync } from 'node:child_process';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { printNote } from './output.js';
import { createProgress } from './progress.js';
import { withStreams } from './streams.js';
import { contacts, fileWith } from './testing/command.js';
import { generateContacts, toCsv } from './testing/generated-contacts.js';
import { startOnTerminal } from './testing/terminal.js';

const esc = '\u001b';

afterEach(() => {
	vi.useRealTimers();
	vi.restoreAllMocks();
});

describe('on a terminal', () => {
	test('a note replaces the bar, which comes back below', async () => {
		vi.useFakeTimers({ now: 0 });
		let output = '';
		const stderr = Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
		stderr.on('data', (text) => {
			output += text;
		});
		await withStreams({ stdin: new PassThrough(), stdout: new PassThrough(), stderr }, async () => {
			const progress = createProgress(200_000);
			for (let records = 1; records <= 100_000; records++) {
				// Very many updates within a millisecond, as an import makes them.
				if (records % 50_000 === 0) vi.advanceTimersByTime(5000);
				progress.update(records, records);
				if (records === 50_000) printNote('line 7: wrong');
			}
			progress.stop();
		});
		const clear = `\r${esc}[K`;
		expect(output.split(clear)).toEqual([
			'',
			`${'░'.repeat(24)} 0 records, 0 %, 0 a second`,
			`${'█'.repeat(6)}${'░'.repeat(18)} 50000 records, 25 %, 10000 a second, 15 s left`,
			'line 7: wrong\n',
			`${'█'.repeat(12)}${'░'.repeat(12)} 100000 records, 50 %, 10000 a second, 10 s left`,
			`${'█'.repeat(12)}${'░'.repeat(12)} 100000 records, 50 %, 10000 a second, 10 s left\n`,
		]);
	});

	test('Ctrl-C ends the work, and the terminal keeps its cursor', async ({ skip }) => {
		const path = join(await temporaryFolder(), 'endless.csv');
		execFileSync('mkfifo', [path]);
		const terminal = startOnTerminal(skip, undefined, ['import', path, '--dry-run']);
		const writer = await open(path, 'w');
		try {
			await writer.write('bitrix_id,name\n1,one\n2,two\n');
			await expect.poll(() => terminal.output()).toContain('0 records');
			terminal.type('\u0003');
			expect(await terminal.ended).toBe(130);
			expect(terminal.output()).not.toContain(`${esc}[?25l`);
			expect(terminal.output()).not.toContain('records:');
		} finally {
			await writer.close();
		}
	});
});

describe('elsewhere', () => {
	test('output has only lines: no bar, no escape sequences and no carriage returns', async () => {
		const path = await fileWith(`${toCsv(generateContacts(5000, 21))}0,,,,,,\n`);
		const outcome = await contacts(undefined, ['import', path, '--dry-run']);
		expect(outcome).toMatchObject({ code: 1, stdout: expect.stringContaining('5000 good, 1 refused') });
		// No control character except line breaks, and no part of a bar.
		expect(outcome.stdout + outcome.stderr).not.toMatch(/[^\P{Cc}\n]|[█░]/u);
	});

	test('a plain line appears every ten seconds', () => {
		vi.useFakeTimers({ now: 0 });
		const lines: string[] = [];
		vi.spyOn(process.stderr, 'write').mockImplementation((line) => {
			lines.push(String(line));
			return true;
		});
		const progress = createProgress(200);
		for (let second = 1; second <= 25; second++) {
			vi.advanceTimersByTime(1000);
			progress.update(second * 8, second * 100);
		}
		progress.stop();
		expect(lines).toEqual([
			'1000 records, 40 %, 100 a second, 15 s left\n',
			'2000 records, 80 %, 100 a second, 5 s left\n',
		]);
	});
});
