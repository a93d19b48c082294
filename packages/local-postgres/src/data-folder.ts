import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { LocalPostgresError } from './binaries.js';

/** What the process that holds a data folder tells others about itself. */
export interface Holder {
	/** Connection URL of the database's owner, as soon as the database is ready. */
	databaseUrl?: string;
}

export interface HeldFolder {
	/** Makes this known to whoever reads the folder. */
	publish(holder: Holder): void;
	release(): void;
}

interface Lock extends Holder {
	port: number;
	token: string;
}

const nameOfLock = 'holder.json';

/**
 * Takes a data folder for this process alone. The lock is a listening port and a secret that only its holder answers with,
 * so one that was left by a crash, or by a process whose ID is in use again, is known to be void.
 *
 * @throws LocalPostgresError when another process holds the folder
 */
export async function holdFolder(folder: string): Promise<HeldFolder> {
	const unusable = (error: unknown) =>
		new LocalPostgresError(
			`${folder} can't be written (${(error as NodeJS.ErrnoException).code}): set another LOCAL_DATA_DIR.`,
		);
	try {
		mkdirSync(folder, { recursive: true });
	} catch (error) {
		throw unusable(error);
	}
	const file = join(folder, nameOfLock);
	const left = contentOf(file);
	if ((await readHolder(folder)) !== undefined) {
		throw new LocalPostgresError(`It runs already on ${folder}: stop that one first, or set another LOCAL_DATA_DIR.`);
	}
	// Only the lock that was found void may go: meanwhile another start may have put its own there.
	if (contentOf(file) !== left) throw new LocalPostgresError(`Another start on ${folder} was faster.`);
	try {
		rmSync(file, { force: true });
	} catch (error) {
		throw unusable(error);
	}

	const token = randomBytes(16).toString('hex');
	const server = createServer((socket) => socket.on('error', () => undefined).end(token))
		.listen(0, '127.0.0.1')
		.unref();
	await once(server, 'listening');
	const { port } = server.address() as { port: number };
	try {
		writeFileSync(file, JSON.stringify({ port, token } satisfies Lock), { flag: 'wx', mode: 0o600 });
	} catch (error) {
		server.close();
		if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw unusable(error);
		throw new LocalPostgresError(`Another start on ${folder} was faster.`);
	}
	return {
		publish(holder) {
			// Written aside and moved, so that a reader never sees half of it.
			writeFileSync(`${file}.new`, JSON.stringify({ port, token, ...holder } satisfies Lock), { mode: 0o600 });
			renameSync(`${file}.new`, file);
		},
		release() {
			rmSync(file, { force: true });
			server.close();
		},
	};
}

function contentOf(file: string): string | undefined {
	try {
		return readFileSync(file, 'utf8');
	} catch {
		return undefined;
	}
}

/** What the living holder of a data folder tells, or undefined where nobody holds it. */
export async function readHolder(folder: string): Promise<Holder | undefined> {
	let lock: Lock;
	try {
		lock = JSON.parse(readFileSync(join(folder, nameOfLock), 'utf8'));
	} catch {
		return undefined;
	}
	return (await answerOf(lock.port)) === lock.token ? lock : undefined;
}

function answerOf(port: number): Promise<string | undefined> {
	return new Promise((resolve) => {
		let answer = '';
		const socket = connect({ port, host: '127.0.0.1', timeout: 1000 });
		socket.setEncoding('utf8').on('data', (text) => {
			answer = (answer + text).slice(0, 64);
		});
		socket.on('end', () => resolve(answer));
		socket.on('timeout', () => socket.destroy());
		socket.on('error', () => resolve(undefined));
		socket.on('close', () => resolve(answer));
	});
}
