import { chmodSync, mkdirSync, readdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { beforeEach, expect, test } from 'vitest';

// operations/backup/backup.sh with programs in place of PostgreSQL's. tests/system/backup.test.ts makes real dumps.

const script = fileURLToPath(new URL('../../operations/backup/backup.sh', import.meta.url));
/** One dump of each night, the newest last. */
const nights = Array.from({ length: 40 }, (_, n) => new Date(Date.UTC(2026, 9, 1 + n, 2, 30)));
const nameOf = (time: Date) => `contacts-${time.toISOString().replace(/\.\d+|[-:]/g, '')}.dump`;
const dumps = nights.map(nameOf);
/** The night after the last one. */
const tonight = new Date(Date.UTC(2026, 9, 41, 2, 30));
const others = ['contacts-before-the-upgrade.dump', 'contacts-20261001.dump', 'other.dump'];

let folder: string;
let programs: string;

beforeEach(async () => {
	const temporary = await temporaryFolder();
	[folder, programs] = [join(temporary, 'dumps'), join(temporary, 'bin')];
	for (const path of [folder, programs]) mkdirSync(path);
	for (const name of [...dumps, ...others]) writeFileSync(join(folder, name), 'a dump');
	const program = (name: string, text: string) => {
		writeFileSync(join(programs, name), `#!/bin/sh\n${text}\n`);
		chmodSync(join(programs, name), 0o755);
	};
	program('pg_dump', `for last; do :; done; echo dump >"\${last#--file=}"; exit "\${DUMP_STATUS:-0}"`);
	program('pg_restore', 'exit 0');
	// The clock of the machine; a time that is passed stays.
	program('date', 'case "$*" in *-d*) exec /bin/date "$@" ;; *) exec /bin/date -d "$NOW" "$@" ;; esac');
});

async function run(days: string | undefined, now = tonight, more: Record<string, string> = {}) {
	const env = {
		PATH: `${programs}:${process.env.PATH}`,
		BACKUP_DIRECTORY: folder,
		NOW: now.toISOString(),
		...(days === undefined ? {} : { BACKUP_KEEP_DAYS: days }),
		...more,
	};
	const backup = startProcess('sh', [script], { env, cwd: join(folder, '..') });
	const code = await backup.exit;
	return { code, kept: readdirSync(folder).sort(), stdout: backup.stdout(), stderr: backup.stderr() };
}

/** The newest so many dumps and the new one, with what is none of ours. */
const newest = (count: number, now = tonight) => [...dumps.slice(dumps.length - count), nameOf(now), ...others].sort();

test.each([
	['30', 30],
	[undefined, 30],
	['', 30],
	['8', 8],
	['1', 6],
	['365', 40],
	['99999', 40],
	['forever', 40],
])(
	'BACKUP_KEEP_DAYS=%s keeps the dumps of so many nights, at least the newest seven, and names what it deletes',
	async (days, before) => {
		const { code, kept, stdout, stderr } = await run(days);
		expect({ code, kept, stderr }).toEqual({ code: 0, kept: newest(before), stderr: '' });
		const deleted = dumps.slice(0, dumps.length - before);
		expect(stdout.split('\n').filter(Boolean).toSorted()).toEqual(
			deleted.map((name) => `Deleted ${name}: older than ${days || 30} days.`),
		);
	},
);

test.each(['0', '-1', '08', 'abc', 'never', '3.5', '365d', '30 # days', '30\r', ' 30', '100000', '$(id)', '1+1'])(
	'BACKUP_KEEP_DAYS=%j is refused before anything is done',
	async (days) => {
		const { code, kept, stdout, stderr } = await run(days);
		expect({ code, kept, stdout }).toEqual({ code: 1, kept: [...dumps, ...others].sort(), stdout: '' });
		expect(stderr).toMatch(/^BACKUP_KEEP_DAYS must be a whole number of days from 1 on, or "forever": [^\n]+\n$/);
	},
);

test.each([
	['a year ahead', new Date(Date.UTC(2027, 10, 10, 2, 30)), 6],
	['back at its beginning', new Date(0), 40],
])('a clock that is %s leaves at least the newest seven dumps', async (_, now, before) => {
	expect(await run('30', now)).toMatchObject({ code: 0, kept: newest(before, now) });
});

test('a dump that fails deletes nothing', async () => {
	expect(await run('1', tonight, { DUMP_STATUS: '1' })).toMatchObject({ code: 1, kept: [...dumps, ...others].sort() });
});

test('a folder and a link that are named like an old dump stay, and fail no backup', async () => {
	mkdirSync(join(folder, 'contacts-20250101T023000Z.dump'));
	symlinkSync('other.dump', join(folder, 'contacts-20250102T023000Z.dump'));
	mkdirSync(join(folder, 'contacts-20250103T023000Z.dump.part'));
	utimesSync(join(folder, 'contacts-20250103T023000Z.dump.part'), 0, 0);
	const { code, kept } = await run('30');
	expect(code).toBe(0);
	expect(kept.filter((name) => name.startsWith('contacts-2025'))).toHaveLength(3);
});

test('CDPATH leads a relative BACKUP_DIRECTORY into no other folder', async () => {
	const elsewhere = join(folder, '..', 'elsewhere');
	mkdirSync(join(elsewhere, 'dumps'), { recursive: true });
	for (const name of dumps) writeFileSync(join(elsewhere, 'dumps', name), 'a dump');
	const { code, kept } = await run('30', tonight, { BACKUP_DIRECTORY: 'dumps', CDPATH: elsewhere });
	expect({ code, kept }).toEqual({ code: 0, kept: newest(30) });
	expect(readdirSync(join(elsewhere, 'dumps'))).toEqual(dumps);
});
