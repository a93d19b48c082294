import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createProgress } from './progress.js';
import { contacts, environmentOf, main, temporaryFolder } from './testing/command.js';
import { generateContacts, toCsv } from './testing/generated-contacts.js';

const esc = '\u001b';

const generated = async (broken = '') => {
	const path = join(await temporaryFolder(), 'list.csv');
	await writeFile(path, toCsv(generateContacts(5000, 21)) + broken);
	return path;
};

/** The words of a shell command that none of its characters means anything in. */
const quoted = (words: string[]) => words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');

/** How to run a command on a terminal of its own here: with `script` of util-linux, or with Python. */
function onTerminal(command: string[]): string[] | undefined {
	const answers = (program: string, ...args: string[]) => String(spawnSync(program, args).stdout ?? '');
	if (answers('script', '--version').includes('util-linux')) {
		return ['script', '--quiet', '--return', '--command', quoted(command), '/dev/null'];
	}
	const python = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))';
	if (answers('python3', '-c', 'import pty; print("pty")').includes('pty'))
		return ['python3', '-c', python, ...command];
	return undefined;
}

describe('on a terminal', () => {
	test('a bar moves to its end, the cursor comes back, and the summary stands below', async (context) => {
		const [program, ...args] = onTerminal([process.execPath, main, 'import', await generated(), '--dry-run']) ?? [];
		if (program === undefined) {
			const note = 'There is neither script (util-linux) nor python3 here to make a terminal: the bar is not shown.';
			console.warn(note);
			return context.skip(note);
		}
		const child = spawn(program, args, {
			env: { ...environmentOf(undefined), TERM: 'xterm', COLUMNS: '100' },
			stdio: ['ignore', 'pipe', 'pipe'],
			timeout: 60_000,
			killSignal: 'SIGKILL',
		});
		const [output, , [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
		expect(code).toBe(0);
		expect(output).toMatch(/░+ 0% \| 0 records \|/);
		expect(output).toMatch(/█+ 100% \| 5000 records \|/);
		expect(output.lastIndexOf(`${esc}[?25h`)).toBeGreaterThan(output.lastIndexOf(`${esc}[?25l`));
		expect(output).toMatch(/\n5000 records: 5000 good, 0 refused; nothing was written\.\r?\n$/);
	});
});

describe('elsewhere', () => {
	test('no bar, no escape sequences and no carriage returns, only lines', async () => {
		const outcome = await contacts(undefined, ['import', await generated('0,,,,,,\n'), '--dry-run']);
		expect(outcome).toEqual({
			code: 1,
			stdout: expect.stringMatching(/^5001 records: 5000 good, 1 refused; nothing was written\.\n[^\n]+\n$/),
			// Record 5000 of the generator is followed by the wrong one; some before it are of two lines.
			stderr: expect.stringMatching(/^line \d{4}: bitrix_id: not a positive integer up to 9007199254740991\n$/),
		});
		// No control character but the line break, and nothing of a bar.
		expect(outcome.stdout + outcome.stderr).not.toMatch(/[^\P{Cc}\n]|[█░]/u);
	});

	afterEach(() => {
		vi.useRealTimers();
		vi.restoreAllMocks();
	});

	test('a plain line every ten seconds', () => {
		vi.useFakeTimers({ now: 0 });
		const lines: string[] = [];
		vi.spyOn(process.stderr, 'write').mockImplementation((line) => {
			lines.push(String(line));
			return true;
		});
		const progress = createProgress(200);
		for (let second = 1; second <= 25; second++) {
			vi.setSystemTime(second * 1000);
			progress.update(second * 8, second * 100);
		}
		progress.stop();
		expect(lines).toEqual(['1000 records, 40 %\n', '2000 records, 80 %\n']);
	});

	test('of an empty file too', () => {
		vi.useFakeTimers({ now: 0 });
		const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
		const progress = createProgress(0);
		vi.setSystemTime(10_000);
		progress.update(0, 0);
		expect(write.mock.calls).toEqual([['0 records, 0 %\n']]);
	});
});
