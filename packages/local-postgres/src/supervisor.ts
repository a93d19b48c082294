/**
 * The process that holds the embedded server: `node supervisor.js` with an IPC channel.
 *
 * It has a separate process group, so Ctrl-C in a terminal reaches only the launcher, and the database stops last. It ends
 * the server as soon as the channel closes, so a crashed launcher leaves no server behind.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
	appendFileSync,
	chmodSync,
	chownSync,
	closeSync,
	mkdirSync,
	openSync,
	readdirSync,
	renameSync,
	rmdirSync,
	rmSync,
	writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Binaries, dataDirectoryVersion, findBinaries, LocalPostgresError } from './binaries.js';

/** What the launcher sends first. */
export interface SupervisorOrder {
	/** Absolute path. It is created when it is missing. */
	dataDirectory: string;
	port: number;
	password: string;
	/** Server settings, as in postgresql.conf. */
	settings: Record<string, string>;
	/** Absolute path of the server's log file. */
	logFile?: string;
}

/** The single reply of the supervisor. */
export type SupervisorReport = { ready: true } | { ready: false; message: string; portTaken: boolean };

/**
 * Keeps stored data out of the server's log. Otherwise the details of an error contain the rejected row, and a logged
 * statement contains its parameters.
 */
const withoutRows = {
	log_error_verbosity: 'terse',
	log_parameter_max_length: '0',
	log_parameter_max_length_on_error: '0',
};

let server: ChildProcess | undefined;
let binaries: Binaries | undefined;
let stopping = false;

process.once('message', (order: SupervisorOrder) => {
	try {
		run(order);
	} catch (error) {
		fail(error instanceof LocalPostgresError ? error.message : String(error));
	}
});
process.on('disconnect', stop);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);

function run(order: SupervisorOrder): void {
	binaries = findBinaries();
	// The server gets its working directory as its data directory. That path needs no rights on the parent folders, which
	// may be closed to the user that the server runs as.
	const pathOf = (directory: string) => (binaries?.user && process.platform === 'linux' ? '/proc/self/cwd' : directory);
	mkdirSync(order.dataDirectory, { recursive: true });
	const options = {
		cwd: order.dataDirectory,
		...binaries.user,
		env: { ...process.env, LC_MESSAGES: 'C', LC_ALL: 'C' },
	};

	const version = dataDirectoryVersion(order.dataDirectory);
	const own = ownVersion(binaries);
	if (version !== undefined && version !== own) {
		throw new LocalPostgresError(
			`The data in ${order.dataDirectory} is of PostgreSQL ${version}, and this is PostgreSQL ${own}. Move it away, or use another LOCAL_DATA_DIR.`,
		);
	}
	if (version === undefined) initialise(order, pathOf, options);
	process.chdir(order.dataDirectory);

	const settings = {
		listen_addresses: '127.0.0.1',
		unix_socket_directories: '',
		port: String(order.port),
		...withoutRows,
		...order.settings,
	};
	const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
	server = spawn(binaries.postgres, ['-D', pathOf(order.dataDirectory), ...flags], {
		...options,
		stdio: ['ignore', 'ignore', 'pipe'],
	});
	let output = '';
	server.stderr?.setEncoding('utf8').on('data', (text: string) => {
		output = (output + text).slice(-16_384);
		if (order.logFile !== undefined) appendFileSync(order.logFile, text);
		if (process.connected && /ready to accept (read-only )?connections/.test(output)) {
			process.send?.({ ready: true } satisfies SupervisorReport);
		}
	});
	server.on('error', (error) => fail(error.message));
	server.on('exit', () => {
		server = undefined;
		if (!stopping) fail(firstFatal(output), /could not bind|Address already in use/.test(output));
		else finish();
	});
}

function initialise(
	order: SupervisorOrder,
	pathOf: (directory: string) => string,
	options: { uid?: number; gid?: number },
): void {
	if (binaries === undefined) return;
	if (readdirSync(order.dataDirectory).length > 0) {
		throw new LocalPostgresError(
			`${order.dataDirectory} holds files but no database. Move them away, or use another LOCAL_DATA_DIR.`,
		);
	}
	// It gets its name once it is complete. Otherwise a start that is killed meanwhile would leave a database that no later one
	// can use.
	const directory = `${order.dataDirectory}.new`;
	rmSync(directory, { recursive: true, force: true });
	mkdirSync(directory);
	const passwordFile = join(tmpdir(), `contacts-initdb-${process.pid}-${Date.now()}`);
	writeFileSync(passwordFile, order.password, { mode: 0o600, flag: 'wx' });
	if (binaries.user) {
		chownSync(directory, binaries.user.uid, binaries.user.gid);
		chownSync(passwordFile, binaries.user.uid, binaries.user.gid);
	}
	chmodSync(directory, 0o700);
	// Passes the file as an open descriptor, because the temporary folder may be closed to the other user.
	const handedOver = binaries.user && process.platform === 'linux';
	const passwordHandle = openSync(passwordFile, 'r');
	const flags = [
		'--username=postgres',
		`--pwfile=${handedOver ? '/proc/self/fd/3' : passwordFile}`,
		'--auth=scram-sha-256',
		'--encoding=UTF8',
		'--locale=C',
	];
	try {
		execFileSync(binaries.initdb, [`--pgdata=${pathOf(directory)}`, ...flags], {
			...options,
			cwd: directory,
			stdio: ['ignore', 'pipe', 'pipe', passwordHandle],
		});
	} catch (error) {
		const output = String((error as { stderr?: Buffer }).stderr ?? error);
		throw new LocalPostgresError(`The database could not be made: ${firstFatal(output)}`);
	} finally {
		closeSync(passwordHandle);
		rmSync(passwordFile, { force: true });
	}
	rmdirSync(order.dataDirectory);
	renameSync(directory, order.dataDirectory);
}

function ownVersion({ postgres }: Binaries): string {
	const version = /(\d+)/.exec(String(execFileSync(postgres, ['--version'])))?.[1];
	if (version === undefined) throw new LocalPostgresError(`${postgres} does not tell its version.`);
	return version;
}

function firstFatal(output: string): string {
	const lines = output.split('\n').filter((line) => line.trim() !== '');
	const fatal = lines.find((line) => /FATAL|ERROR|PANIC|error:/.test(line)) ?? lines.at(-1) ?? 'no output';
	return fatal.replace(/^.*?(FATAL|ERROR|PANIC|error):\s*/, '').trim();
}

function stop(): void {
	stopping = true;
	// SIGINT is PostgreSQL's fast shutdown: it ends sessions and keeps committed data.
	if (server === undefined) finish();
	else server.kill('SIGINT');
}

function fail(message: string, portTaken = false): void {
	if (process.connected) process.send?.({ ready: false, message, portTaken } satisfies SupervisorReport, finish);
	else finish();
}

function finish(): void {
	binaries?.dispose();
	process.exit(0);
}
