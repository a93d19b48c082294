import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { acceptedLines, environmentLines, readByShell } from '@contacts/testing/environment-files.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, test } from 'vitest';
import { read, root } from '../docs/pages.js';

async function fileOf(text: string | Buffer): Promise<string> {
	const file = join(await temporaryFolder(), 'some.env');
	writeFileSync(file, text);
	return file;
}

test('operations/with-env.sh gives the command the values as they stand there', async () => {
	const file = await fileOf(
		'# A comment\n\nURL=postgres://a:b@h/c?d=e&f=g#h\r\nLABELS=Do not call, Спам\nPASSWORD=\'$a #"`\\b\'\nNAME="it\'s"\nEMPTY=\nURL=last',
	);
	expect(readByShell(file)).toMatchObject({
		URL: 'last',
		LABELS: 'Do not call, Спам',
		PASSWORD: '$a #"`\\b',
		NAME: "it's",
		EMPTY: '',
	});
});

const refused: Record<string, (string | Buffer)[]> = {
	'write NAME=value': ['export A=b', 'A = b', ' A=b', 'A', '=b', '1A=b', 'A-B=c', ';c', 'A: b'],
	"write A='value', because": [
		...['A= b', 'A=b ', 'A=$b', 'A=`b`', 'A=a\\b', 'A=b # c', 'A=#b', "A='b' # c", "A='b'c", "A='b", 'A="b', "A=it's"],
	],
	"write A='value': between": ['A="$b"', 'A="a\\b"', 'A="`b`"', 'A="a"b"'],
	"has a ' within": ["A='it's'", "A='b\\'"],
	'does not print': ['A=b\u0007', 'A=b\tc', 'A=b\rc'],
	'is not seen': ['\ufeffA=b', 'A=b\u00a0', 'A=\u2003b', 'A=b\u200bc'],
	'is not UTF-8': [Buffer.from('A=caf\xe9', 'latin1')],
};
const rows = Object.entries(refused).flatMap(([words, lines]) => lines.map((line) => [line, words] as const));

test.each(rows)('operations/with-env.sh refuses %j by its number, and runs nothing', async (line, words) => {
	const [before, after] = ['B=1\n# c\n', '\nC=1\n'].map((text) => Buffer.from(text)) as [Buffer, Buffer];
	const file = await fileOf(Buffer.concat([before, Buffer.from(line), after]));
	const refusal = readByShell(file);
	expect(refusal).toMatch(/^\S+some\.env, line 3: [^\n]+\n$/);
	expect(refusal).toContain(words);
});

test('operations/with-env.sh reads each character as it stands, or refuses the line', async () => {
	const lines = environmentLines();
	const { values } = await acceptedLines();
	const written = lines
		.map(({ name, value }) => [name, value.replace(/\r$/, '')])
		.filter(([name]) => String(name) in values);
	expect(values).toEqual(Object.fromEntries(written));
	expect(written.length).toBeGreaterThan(lines.length / 2);
});

test('operations/with-env.sh accepts .env.example, and what the scripts write', async () => {
	const folder = await temporaryFolder();
	const units = read('operations/systemd/new-env.sh').replace('cd /etc/contacts\n', '');
	mkdirSync(join(folder, 'contacts'));
	execFileSync('sh', ['-c', units], { cwd: join(folder, 'contacts') });
	const written = readdirSync(join(folder, 'contacts'));
	expect(written.length).toBeGreaterThan(7);
	for (const name of written) expect(readByShell(join(folder, 'contacts', name))).toBeInstanceOf(Object);
	const example = read('.env.example').replace(/^# (?=[A-Z0-9_]+=)/gm, '');
	expect(Object.keys(readByShell(await fileOf(example))).length).toBeGreaterThan(20);
	expect(readByShell(join(root, '.env.example'))).toBeInstanceOf(Object);
});
