import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from './temporary-folder.js';

const script = fileURLToPath(new URL('../../../operations/with-env.sh', import.meta.url));

/** Characters that one program reads and others don't, or that somebody's editor leaves. */
const characters = [
	...' \t\'"`$\\#;&|<>(){}*?!=%@:^.éж€😀',
	...[
		'\u00a0',
		'\u2028',
		'\u0085',
		'\u200b',
		'\ufeff',
		'\u0007',
		'\r',
		'$HOME',
		'$\x7bA}',
		'\\n',
		' #',
		' # ',
		'\\"',
		"\\'",
	],
];
const places = [
	(text: string) => text,
	(text: string) => `${text}b`,
	(text: string) => `a${text}`,
	(text: string) => `a${text}b`,
];
const quotes = ['', "'", '"'];

/** What operations/with-env.sh makes of the file: the variables of the command, or the line that says why there is none. */
export function readByShell(file: string): Record<string, string> | string {
	const { status, stdout, stderr } = spawnSync('sh', [script, file, 'env', '-0'], { encoding: 'utf8', env: {} });
	return status === 0 ? variablesOf(stdout) : stderr;
}

const variablesOf = (output: string): Record<string, string> =>
	Object.fromEntries(
		output.split('\0').map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
	);

/** Lines with each of the characters at each place of a value, in each kind of quotes: the name, the line, and what it says. */
export function environmentLines(): { name: string; line: string; value: string }[] {
	return quotes
		.flatMap((quote) => characters.flatMap((text) => places.map((place) => ({ quote, value: place(text) }))))
		.map(({ quote, value }, number) => {
			const name = `VALUE_${number}`;
			return { name, line: `${name}=${quote}${value}${quote}`, value };
		});
}

/** A file of those lines that the script accepts, and the values that it reads from each. */
export async function acceptedLines(): Promise<{ text: string; values: Record<string, string> }> {
	const folder = await temporaryFolder();
	const lines = environmentLines();
	for (const { name, line } of lines) writeFileSync(join(folder, name), line);
	// One shell for all of them: it forks faster than a large process.
	const each = 'for file in *; do sh "$0" "$file" env -0 >"$file.out" || rm "$file.out"; done';
	spawnSync('sh', ['-c', each, script], { cwd: folder, env: {}, stdio: 'ignore' });
	const accepted = lines.flatMap(({ name, line }) => {
		const output = join(folder, `${name}.out`);
		return existsSync(output)
			? [{ line, pair: [name, String(variablesOf(readFileSync(output, 'utf8'))[name])] as const }]
			: [];
	});
	return {
		text: accepted.map(({ line }) => `${line}\n`).join(''),
		values: Object.fromEntries(accepted.map(({ pair }) => pair)),
	};
}
