import { execFileSync } from 'node:child_process';
import { beforeAll, describe, expect, test } from 'vitest';
import { createProgram } from '../program.js';
import { contacts } from '../testing/command.js';

let script: string;

beforeAll(async () => {
	const outcome = await contacts(undefined, ['completion', 'bash']);
	expect(outcome).toMatchObject({ code: 0, stderr: '' });
	script = outcome.stdout;
});

/** What bash offers when Tab is pressed after these words. */
function complete(...words: string[]): string[] {
	const ask = `COMP_WORDS=(contacts "$@"); COMP_CWORD=$#; _contacts; printf '%s\\n' "\${COMPREPLY[@]}"`;
	const output = execFileSync('bash', ['--norc', '-uc', `${script}\n${ask}`, 'bash', ...words], { encoding: 'utf8' });
	return output.split('\n').filter(Boolean);
}

describe('in bash', () => {
	test('every command is offered, filtered by the typed prefix', () => {
		expect(complete('')).toEqual(createProgram({}).commands.map((command) => command.name()));
		expect(complete('re')).toEqual(['restore']);
		expect(complete('key', '')).toEqual(['create', 'list', 'rotate', 'revoke']);
		expect(complete('sync', 'st')).toEqual(['status']);
	});

	test('a typed dash offers the options of the typed command', () => {
		expect(complete('restore', '-')).toEqual(['--replace', '--yes', '--json', '--help']);
		expect(complete('key', 'create', 'acme', '--s')).toEqual(['--service', '--stdin']);
		expect(complete('sync', 'status', '--')).toEqual(['--json', '--help']);
	});

	test('an option with fixed values offers them, and other options offer nothing', () => {
		expect(complete('key', 'create', 'acme', '--service', '')).toEqual(['personal-contacts', 'company-contacts']);
		expect(complete('import', '--format', 'nd')).toEqual(['ndjson']);
		expect(complete('key', 'rotate', '5', '--overlap', '')).toEqual([]);
		expect(complete('completion', '')).toEqual(['bash', 'zsh', 'fish']);
	});

	test('where a file is expected bash falls back to file names', () => {
		expect(complete('restore', '')).toEqual([]);
		expect(script).toContain('complete -o default -F _contacts contacts');
	});

	test('typed text is never executed', () => {
		const typed = '$(echo canary >&2; exit 7)`exit 8`';
		expect(complete(typed, '')).toEqual(complete(''));
		expect(complete('key', typed)).toEqual([]);
	});
});

test('another shell is wrong usage', async () => {
	const outcome = await contacts(undefined, ['completion', 'tcsh']);
	expect(outcome).toMatchObject({ code: 2, stdout: '' });
	expect(outcome.stderr).toContain('bash, zsh, fish');
});
