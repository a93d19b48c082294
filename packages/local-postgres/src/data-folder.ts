import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { LocalPostgresError } from './binaries.js';

/** What the process that holds a data folder publishes about itself. */
export interface Holder {
	/** Connection URL of the database's owner, as soon as the database is ready. */
	databaseUrl?: string;
}

export interface HeldFolder {
	/** Publishes this to all readers of the folder. */
	publish(holder: Holder): void;
	release(): void;
}

interface Lock extends Holder {
	port: number;
	token: string;
}

const nameOfLock = 'holder.json';

/**
 * Locks a data folder for this process. The lock is a listening port and a secret that only its holder returns. So a lock
 * that is left after a crash is recognized as stale, even if its process ID is in use again.
 *
 * PostgreSQL's own `postmaster.pid` can't replace it. It does not exist until initdb has ended, so two first starts would not
 * notice each other. It names a server whether its launcher lives or was killed: the next start has to end the second
 * and must not touch the first. And it contains neither the password nor whether the database is migrated.
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
	const lock = await checkLock(folder);
	if (lock?.state === 'held')
		throw new LocalPostgresError(`It runs already on ${folder}: stop that one first, or set another LOCAL_DATA_DIR.`);
	// The holder is suspended, or too busy: a second server on its files could destroy them.
	if (lock?.state === 'unresponsive' && contentOf(file) === left)
		throw new LocalPostgresError(
			`It seems to run on ${folder}, but does not respond: continue or end it (port ${lock.port}). If it does not run, delete ${file}.`,
		);
	// Removes only the stale lock that was found: another start may have placed its own there meanwhile.
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
			// Writes a temporary file and renames it, so that a reader never sees a partial file.
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

/** What the living holder of a data folder has published, or undefined if there is no holder that responds. */
export async function readHolder(folder: string): Promise<Holder | undefined> {
	const lock = await checkLock(folder);
	return lock?.state === 'held' ? lock : undefined;
}

/** The lock of a data folder, and whether its holder lives. Undefined if there is no lock that can be read. */
async function checkLock(folder: string): Promise<(Lock & { state: 'held' | 'unresponsive' | 'stale' }) | undefined> {
	let lock: Lock;
	try {
		lock = JSON.parse(readFileSync(join(folder, nameOfLock), 'utf8'));
	} catch {
		return undefined;
	}
	const response = await responseOf(lock.port);
	if (response === timedOut) return { ...lock, state: 'unresponsive' };
	return { ...lock, state: response === lock.token ? 'held' : 'stale' };
}

const timedOut = Symbol('timed out');

function responseOf(port: number): Promise<string | undefined | typeof timedOut> {
	return new Promise((resolve) => {
		let response = '';
		const socket = connect({ port, host: '127.0.0.1', timeout: 1000 });
		socket.setEncoding('utf8').on('data', (text) => {
			response = (response + text).slice(0, 64);
		});
		// Another program that now has the port, and waits for a request, ends the connection too. A suspended process can't.
		socket.on('connect', () => socket.end());
		socket.on('end', () => resolve(response));
		socket.on('timeout', () => {
			resolve(timedOut);
			socket.destroy();
		});
		socket.on('error', () => resolve(undefined));
		socket.on('close', () => resolve(response));
	});
}
