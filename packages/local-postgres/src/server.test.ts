import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LocalPostgresError } from '@contacts/local-postgres/binaries.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/server.js';
import { accepts } from '@contacts/testing/ports.js';
import { isAlive } from '@contacts/testing/proc.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { describe, expect, onTestFinished, test } from 'vitest';
import { query, serverPid, settings, start } from './testing/server.js';

async function refusalOf(starting: Promise<LocalPostgres>): Promise<string> {
	const thrown = await starting.then(
		(server) => server.stop(),
		(error: unknown) => error,
	);
	expect(thrown).toBeInstanceOf(LocalPostgresError);
	const { message } = thrown as Error;
	expect(message).toMatch(/^\S[^\n]+$/);
	return message;
}

describe('a local PostgreSQL', () => {
	test('is created in a new folder, whose parent is closed to others and has a space in its path', async () => {
		const dataDirectory = join(await temporaryFolder(0o700), "a folder's name", 'data $HOME');
		const server = await start(dataDirectory, { password: "pass word/'@:?#%" });
		const [row] = await query(server, 'select version() as version, current_user as "user"');
		expect(row).toEqual({ version: expect.stringMatching(/^PostgreSQL 18/), user: 'postgres' });
		expect(existsSync(join(dataDirectory, 'PG_VERSION'))).toBe(true);
		expect(await query(server, 'show server_encoding')).toEqual([{ server_encoding: 'UTF8' }]);
	});

	test('is created although the temporary folder is closed to others', async () => {
		const previous = process.env.TMPDIR;
		onTestFinished(() => {
			if (previous === undefined) delete process.env.TMPDIR;
			else process.env.TMPDIR = previous;
		});
		process.env.TMPDIR = await temporaryFolder(0o700);
		const server = await start(join(process.env.TMPDIR, 'data'));
		expect(await query(server, 'select 1 as one')).toEqual([{ one: 1 }]);
		expect(readdirSync(process.env.TMPDIR)).toEqual(['data']);
	});

	test('listens only on 127.0.0.1, applies its settings, and rejects a wrong password', async () => {
		const server = await start(join(await temporaryFolder(), 'data'), { settings: { ...settings, work_mem: '5MB' } });
		expect(await query(server, 'show listen_addresses')).toEqual([{ listen_addresses: '127.0.0.1' }]);
		expect(await query(server, 'show unix_socket_directories')).toEqual([{ unix_socket_directories: '' }]);
		expect(await query(server, 'show work_mem')).toEqual([{ work_mem: '5MB' }]);
		const wrong = { ...server, url: (name: string) => server.url(name).replace(':test@', ':other@') };
		await expect(query(wrong, 'select 1')).rejects.toMatchObject({ code: '28P01' });
	});

	test('leaves no process, port or pid file behind when it is stopped, and keeps the data', async () => {
		const dataDirectory = join(await temporaryFolder(), 'data');
		const first = await start(dataDirectory);
		const pid = serverPid(dataDirectory);
		await query(first, "create table kept as select 'stored' as value");
		await first.stop();
		expect([await accepts(first.port), isAlive(pid), existsSync(join(dataDirectory, 'postmaster.pid'))]).toEqual([
			false,
			false,
			false,
		]);

		const second = await start(dataDirectory);
		expect(await query(second, 'select value from kept')).toEqual([{ value: 'stored' }]);
		await second.stop();
		await second.stop();
	});

	test('reports that it has ended by itself, and the next start has all committed data', async () => {
		const dataDirectory = join(await temporaryFolder(), 'data');
		const server = await start(dataDirectory);
		await query(server, "create table kept as select 'stored' as value");
		let ended = false;
		void server.ended.then(() => {
			ended = true;
		});
		await query(server, 'select 1');
		expect(ended).toBe(false);
		process.kill(serverPid(dataDirectory), 'SIGKILL');
		await server.ended;
		const next = await start(dataDirectory);
		expect(await query(next, 'select value from kept')).toEqual([{ value: 'stored' }]);
	});
});

describe('a failed start reports its reason in one line:', () => {
	test('data of another major version, which stays unchanged', async () => {
		const dataDirectory = await temporaryFolder();
		writeFileSync(join(dataDirectory, 'PG_VERSION'), '12\n');
		writeFileSync(join(dataDirectory, 'precious'), 'data');
		const message = await refusalOf(startLocalPostgres({ dataDirectory, password: 'test' }));
		expect(message).toContain(`The data in ${dataDirectory} is of PostgreSQL 12, and this is PostgreSQL 18.`);
		expect(message).toContain('LOCAL_DATA_DIR');
		expect(readdirSync(dataDirectory).sort()).toEqual(['PG_VERSION', 'precious']);
		expect(readFileSync(join(dataDirectory, 'precious'), 'utf8')).toBe('data');
	});

	test('a folder with other files, which stay unchanged', async () => {
		const dataDirectory = await temporaryFolder();
		writeFileSync(join(dataDirectory, 'precious'), 'data');
		const message = await refusalOf(startLocalPostgres({ dataDirectory, password: 'test' }));
		expect(message).toContain(`${dataDirectory} holds files but no database.`);
		expect(readdirSync(dataDirectory)).toEqual(['precious']);
	});

	test('a path through a file', async () => {
		const file = join(await temporaryFolder(), 'file');
		writeFileSync(file, '');
		expect(await refusalOf(startLocalPostgres({ dataDirectory: join(file, 'data'), password: 'test' }))).toContain(
			'ENOTDIR',
		);
	});

	test('a setting that PostgreSQL does not know', async () => {
		const dataDirectory = join(await temporaryFolder(), 'data');
		const starting = startLocalPostgres({ dataDirectory, password: 'test', settings: { no_such_setting: '1' } });
		expect(await refusalOf(starting)).toContain('no_such_setting');
	});
});
