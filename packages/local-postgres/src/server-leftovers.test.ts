import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LocalPostgresError } from '@contacts/local-postgres/binaries.js';
import { accepts } from '@contacts/testing/ports.js';
import { childrenOf, isAlive, parentOf } from '@contacts/testing/proc.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { describe, expect, test } from 'vitest';
import { built, type Program, runProgram } from './testing/programs.js';
import { query, serverPid, start } from './testing/server.js';

// What a start does when another server runs on its folder, or was killed there.

describe('two starts on one data directory', () => {
	test('at the same time: one succeeds, and the other fails with one line', async () => {
		const dataDirectory = join(await temporaryFolder(), 'data');
		await (await start(dataDirectory)).stop();
		const results = await Promise.allSettled([start(dataDirectory), start(dataDirectory)]);
		const failed = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
		expect(failed).toEqual([expect.any(LocalPostgresError)]);
		expect(failed[0].message).toMatch(/^\S[^\n]+$/);
		const [server] = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
		expect(server && (await query(server, 'select 1 as one'))).toEqual([{ one: 1 }]);
	});

	test('one after the other: the later one takes over, the earlier server shuts down cleanly, and no data is lost', async () => {
		const dataDirectory = join(await temporaryFolder(), 'data');
		const first = await start(dataDirectory);
		await query(first, "create table kept as select 'stored' as value");
		const second = await start(dataDirectory);
		await first.ended;
		expect(await accepts(first.port)).toBe(false);
		expect(await query(second, 'select value from kept')).toEqual([{ value: 'stored' }]);
	});
});

describe('after a SIGKILL', () => {
	test('of the process that started it, the server shuts down by itself', async () => {
		const dataDirectory = join(await temporaryFolder(), 'data');
		mkdirSync(dataDirectory);
		const program = `
			import { startLocalPostgres } from ${JSON.stringify(built('server'))};
			const { port } = await startLocalPostgres({
				dataDirectory: process.argv[1], password: 'test', settings: { fsync: 'off' },
			});
			console.log(port);`;
		const parent = await runProgram(program, [dataDirectory]);
		const port = Number(parent.firstLine);
		const pid = serverPid(dataDirectory);
		const supervisor = parentOf(pid);
		expect(await accepts(port)).toBe(true);

		await parent.kill();
		await expect.poll(() => accepts(port), { timeout: 15_000 }).toBe(false);
		await expect.poll(() => existsSync(join(dataDirectory, 'postmaster.pid')), { timeout: 15_000 }).toBe(false);
		await expect.poll(() => [pid, supervisor].filter(isAlive), { timeout: 15_000 }).toEqual([]);
	});

	test('of all processes while a new data directory is initialised, the next start works', async () => {
		const dataDirectory = join(await temporaryFolder(), 'data');
		const program = `
			import { startLocalPostgres } from ${JSON.stringify(built('server'))};
			console.log('starting');
			await startLocalPostgres({ dataDirectory: process.argv[1], password: 'test' });`;
		const parent = await runProgram(program, [dataDirectory]);
		const begun = () => [dataDirectory, `${dataDirectory}.new`].some((each) => existsSync(join(each, 'PG_VERSION')));
		await expect.poll(begun, { timeout: 30_000, interval: 5 }).toBe(true);
		// The supervisor and initdb are one process group.
		for (const supervisor of childrenOf(parent.pid)) process.kill(-supervisor, 'SIGKILL');
		await parent.kill();
		const next = await start(dataDirectory);
		expect(await query(next, 'select 1 as one')).toEqual([{ one: 1 }]);
	});

	test('of the supervisor, the next start ends the orphaned server, and no data is lost', async () => {
		const dataDirectory = join(await temporaryFolder(), 'data');
		const first = await start(dataDirectory);
		await query(first, "create table kept as select 'stored' as value");
		const pid = serverPid(dataDirectory);
		process.kill(parentOf(pid), 'SIGKILL');
		await first.ended;
		// It still runs, and only the next start ends it.
		expect([await accepts(first.port), isAlive(pid)]).toEqual([true, true]);

		const next = await start(dataDirectory);
		expect([await accepts(first.port), isAlive(pid)]).toEqual([false, false]);
		expect(await query(next, 'select value from kept')).toEqual([{ value: 'stored' }]);
	});

	/** Creates a postmaster.pid with the ID of a living process of the server's user, and this port. */
	async function leavePidFile(dataDirectory: string, port?: number): Promise<Program> {
		const first = await start(dataDirectory);
		const file = join(dataDirectory, 'postmaster.pid');
		const left = readFileSync(file, 'utf8').split('\n');
		await first.stop();
		const { uid } = statSync(dataDirectory);
		const other = await runProgram("console.log('here'); setInterval(() => undefined, 1000);", [], { uid, cwd: '/' });
		left[0] = String(other.pid);
		if (port !== undefined) left[3] = String(port);
		writeFileSync(file, left.join('\n'));
		return other;
	}

	test('of all processes, a stale postmaster.pid blocks nothing and harms no other process', async () => {
		const dataDirectory = join(await temporaryFolder(), 'data');
		const other = await leavePidFile(dataDirectory);
		const next = await start(dataDirectory);
		expect(await query(next, 'select 1 as one')).toEqual([{ one: 1 }]);
		expect(isAlive(other.pid)).toBe(true);
	});

	test('of all processes, the next start harms neither the process nor the server that a stale postmaster.pid now names', async () => {
		const elsewhere = await start(join(await temporaryFolder(), 'data'), { password: 'other' });
		const dataDirectory = join(await temporaryFolder(), 'data');
		const other = await leavePidFile(dataDirectory, elsewhere.port);
		const next = await start(dataDirectory);
		expect(await query(next, 'select 1 as one')).toEqual([{ one: 1 }]);
		expect(await query(elsewhere, 'select 2 as two')).toEqual([{ two: 2 }]);
		expect(isAlive(other.pid)).toBe(true);
	});
});
