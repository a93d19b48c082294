import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folder, hostile, machine, running, tooFew, upgraded } from '../process/upgrade-machine.js';

// operations/upgrade.sh with a stub in place of Docker. tests/compose runs the script with the containers.

test('killed at any of its lines, it leaves .env whole, and the next run finishes or undoes it', () => {
	// Bash runs these before each command, in functions and subshells too.
	const [note, kill] = [join(folder, 'note.sh'), join(folder, 'kill.sh')];
	writeFileSync(note, "set -T; trap 'echo $LINENO >>lines' DEBUG\n");
	writeFileSync(kill, `set -T; trap '[ $LINENO -ne "$KILL_AT" ] || kill -9 $$' DEBUG\n`);
	const whole = machine(hostile);
	expect(whole.upgrade('0.2.0', { BASH_ENV: note }, ['bash'])).toMatchObject({ status: 0 });
	const lines = new Set(readFileSync(join(whole.cwd, 'lines'), 'utf8').trim().split('\n'));
	expect(lines.size).toBeGreaterThan(50);

	const seen = new Set<string>();
	for (const line of lines) {
		const it = machine(hostile);
		expect(it.upgrade('0.2.0', { BASH_ENV: kill, KILL_AT: line }, ['bash']).status, line).toBe(null);
		expect([hostile, upgraded], line).toContain(it.text());
		const state = JSON.stringify([it.text(), it.containers(), existsSync(join(it.cwd, '.env.new'))]);
		if (seen.has(state)) continue;
		seen.add(state);
		const copy = machine(hostile);
		rmSync(join(copy.cwd, 'containers'), { recursive: true });
		cpSync(it.cwd, copy.cwd, { recursive: true });
		expect(it.upgrade('0.2.0'), line).toMatchObject({ status: 0 });
		expect([it.text(), it.containers(), tooFew(it)], line).toEqual([upgraded, running('0.2.0'), false]);
		expect(copy.upgrade('0.1.0'), line).toMatchObject({ status: 0 });
		expect([copy.text(), copy.containers(), tooFew(copy)], line).toEqual([hostile, running('0.1.0'), false]);
	}
	expect(seen.size).toBeGreaterThan(5);
}, 600_000);
