import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { describe, expect, onTestFinished, test } from 'vitest';
import { LocalPostgresError } from './binaries.js';
import { type HeldFolder, holdFolder, readHolder } from './data-folder.js';
import { built, runProgram } from './testing/programs.js';

const databaseUrl = 'postgres://postgres:secret@127.0.0.1:1/contacts';

async function hold(folder: string): Promise<HeldFolder> {
	const held = await holdFolder(folder);
	onTestFinished(() => held.release());
	return held;
}

async function refusalOf(folder: string): Promise<string> {
	const thrown = await holdFolder(folder).then(
		(held) => held.release(),
		(error: unknown) => error,
	);
	expect(thrown).toBeInstanceOf(LocalPostgresError);
	const { message } = thrown as Error;
	expect(message).not.toContain('\n');
	return message;
}

async function listen(onConnection: (socket: Socket) => void): Promise<{ server: Server; port: number }> {
	const server = createServer({ allowHalfOpen: true }, (socket) => onConnection(socket.on('error', () => undefined)));
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	onTestFinished(() => void server.close());
	return { server, port: (server.address() as { port: number }).port };
}

const lockOf = (folder: string) => join(folder, 'holder.json');
const leaveLock = (folder: string, port: number) =>
	writeFileSync(lockOf(folder), JSON.stringify({ port, token: 'f'.repeat(32), databaseUrl }));

describe('a data folder', () => {
	test('that nobody holds has no holder, whether it exists or not', async () => {
		const folder = await temporaryFolder();
		expect(await readHolder(folder)).toBeUndefined();
		expect(await readHolder(join(folder, 'missing'))).toBeUndefined();
	});

	test('is created when it is missing', async () => {
		const folder = join(await temporaryFolder(), 'a', 'b c');
		await hold(folder);
		expect(await readHolder(folder)).toBeDefined();
	});

	test('has one holder: the second one is rejected with a reason and a solution, and the first one keeps the lock', async () => {
		const folder = await temporaryFolder();
		const first = await hold(folder);
		expect(await refusalOf(folder)).toBe(
			`It runs already on ${folder}: stop that one first, or set another LOCAL_DATA_DIR.`,
		);
		first.publish({ databaseUrl });
		expect(await readHolder(folder)).toMatchObject({ databaseUrl });
	});

	test('returns what its holder has published, and nothing before that', async () => {
		const folder = await temporaryFolder();
		const held = await hold(folder);
		expect((await readHolder(folder))?.databaseUrl).toBeUndefined();
		held.publish({ databaseUrl });
		expect((await readHolder(folder))?.databaseUrl).toBe(databaseUrl);
	});

	test('hides the password in the URL from other users', async () => {
		const folder = await temporaryFolder(0o755);
		const held = await hold(folder);
		expect(statSync(lockOf(folder)).mode & 0o077).toBe(0);
		held.publish({ databaseUrl });
		expect(readFileSync(lockOf(folder), 'utf8')).toContain('secret');
		expect(statSync(lockOf(folder)).mode & 0o077).toBe(0);
	});

	test('is free after it was released', async () => {
		const folder = await temporaryFolder();
		const first = await holdFolder(folder);
		first.publish({ databaseUrl });
		first.release();
		expect(existsSync(lockOf(folder))).toBe(false);
		expect(await readHolder(folder)).toBeUndefined();
		await hold(folder);
	});

	test('that can’t be created or written is rejected with one line', async () => {
		const file = join(await temporaryFolder(), 'file');
		writeFileSync(file, '');
		expect(await refusalOf(file)).toContain(file);
		expect(await refusalOf(join(file, 'below'))).toContain('LOCAL_DATA_DIR');
		const folder = await temporaryFolder();
		mkdirSync(join(lockOf(folder), 'occupied'), { recursive: true });
		expect(await refusalOf(folder)).toMatch(/can't be written \(\w+\): set another LOCAL_DATA_DIR/);
	});
});

describe('a lock', () => {
	const program = `
		import { holdFolder } from ${JSON.stringify(built('data-folder'))};
		const held = await holdFolder(process.argv[1]);
		held.publish({ databaseUrl: ${JSON.stringify(databaseUrl)} });
		console.log('held');
		setInterval(() => undefined, 1000);`;

	test('of another process is valid while that lives, and is taken over after it was killed', async () => {
		const folder = await temporaryFolder();
		const holder = await runProgram(program, [folder]);
		expect((await readHolder(folder))?.databaseUrl).toBe(databaseUrl);
		expect(await refusalOf(folder)).toContain('It runs already');

		await holder.kill();
		expect(existsSync(lockOf(folder))).toBe(true);
		expect(await readHolder(folder)).toBeUndefined();
		await hold(folder);
		expect((await readHolder(folder))?.databaseUrl).toBeUndefined();
	});

	test.each(['', '{', '{"port":', 'nonsense'])('that was partly written is ignored: %j', async (content) => {
		const folder = await temporaryFolder();
		writeFileSync(lockOf(folder), content);
		expect(await readHolder(folder)).toBeUndefined();
		await hold(folder);
		expect(await readHolder(folder)).toBeDefined();
	});

	test.each<[string, (socket: Socket) => void]>([
		['says something else', (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')],
		['waits for a request', (socket) => socket.resume().on('end', () => socket.end())],
		['hangs up', (socket) => socket.destroy()],
		['says too much', (socket) => socket.end('x'.repeat(100_000))],
	])('counts for nothing when its port now belongs to one that %s', async (_, onConnection) => {
		const folder = await temporaryFolder();
		const { port } = await listen(onConnection);
		leaveLock(folder, port);
		expect(await readHolder(folder)).toBeUndefined();
		await hold(folder);
		expect(await readHolder(folder)).toBeDefined();
	});

	test('whose holder is suspended is kept: the second start is rejected', async () => {
		const folder = await temporaryFolder();
		const holder = await runProgram(program, [folder]);
		const { port } = JSON.parse(readFileSync(lockOf(folder), 'utf8'));
		process.kill(holder.pid, 'SIGSTOP');
		expect(await refusalOf(folder)).toBe(
			`It seems to run on ${folder}, but does not respond: continue or end it (port ${port}). If it does not run, delete ${lockOf(folder)}.`,
		);
		process.kill(holder.pid, 'SIGCONT');
		expect((await readHolder(folder))?.databaseUrl).toBe(databaseUrl);
	});

	test('that was left by a crash is taken over by only one of two concurrent starts', async () => {
		const folder = await temporaryFolder();
		// The first start checks the dead holder, and gets the result only after the second one has locked the folder.
		const waiting: Socket[] = [];
		let arrived = () => {};
		const asked = new Promise<void>((resolve) => {
			arrived = resolve;
		});
		const { port } = await listen((socket) => {
			if (waiting.push(socket) > 1) socket.end('somebody else');
			arrived();
		});
		leaveLock(folder, port);
		const slow = refusalOf(folder);
		await asked;
		const quick = await hold(folder);
		waiting[0]?.end('somebody else');
		expect(await slow).toContain('faster');
		quick.publish({ databaseUrl });
		expect((await readHolder(folder))?.databaseUrl).toBe(databaseUrl);
	});

	test('that is new is acquired by only one of many concurrent starts', async () => {
		const folder = await temporaryFolder();
		const results = await Promise.allSettled(Array.from({ length: 8 }, () => hold(folder)));
		expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
		expect(await readHolder(folder)).toBeDefined();
	});
});
