import { databaseUrlForm } from './database-url.js';

/** The database failed, could not be reached or did not respond in time. The cause is for the log, never for the caller. */
export class DatabaseError extends Error {
	override name = 'DatabaseError';
	constructor(cause: unknown) {
		super('the database failed', { cause });
	}
}

/** The product can't use this database. The message is one line for people, with what to do. */
export class UnsupportedDatabaseError extends Error {
	override name = 'UnsupportedDatabaseError';
}

/** The caller is refused: nothing was written for it, and nothing will be. */
export class DatabaseBusyError extends Error {
	override name = 'DatabaseBusyError';
	constructor(message = 'too many requests wait for the database') {
		super(message);
	}
}

/** The server's clock shows that this process or its machine stood still: the caller may have given up long ago. */
export class StoodStillError extends DatabaseBusyError {
	override name = 'StoodStillError';
	constructor() {
		super('the process stood still while the write waited');
	}
}

/** The server has executed a write twice, and it was neither applied nor refused. */
export class NoOutcomeError extends Error {
	override name = 'NoOutcomeError';
	constructor() {
		super('the server has reported no outcome of a write, twice');
	}
}

/** A statement had no response in time. */
export class DeadlineError extends Error {
	override name = 'DeadlineError';
	readonly code = 'QUERY_DEADLINE';

	/** @param wasSent true: it was sent to the server; false: it still waited for capacity */
	constructor(
		timeoutMs: number,
		readonly wasSent: boolean,
	) {
		super(`no response within ${Math.round(timeoutMs)} ms`);
	}
}

/** The error of a statement after `close`. */
export function closedError(): Error {
	return Object.assign(new Error('the database has been closed'), { code: 'CONNECTION_ENDED' });
}

/** Why the database failed a request, as a label of the metrics. */
export const failureReasons = ['busy', 'deadline', 'connection', 'statement'] as const;

export type FailureReason = (typeof failureReasons)[number];

interface Consequences {
	/** Whether the statement has certainly changed nothing, and never will. */
	isUnwritten: boolean;
	/** Whether it is sent again: a write as soon as it can no longer be executed. */
	isSentAgain?: boolean;
	/** Whether the server has refused it: nothing is wrong with the connection, and a part of a batch may be accepted alone. */
	isRefused?: boolean;
	/** Whether the database rejects this configuration: it will reject it again until an operator changes something. */
	isPermanent?: boolean;
	/** `busy`: too many callers waited. `deadline`: no response in time, by our clock or by the server's. */
	reason: FailureReason;
}

const consequences = {
	/** The connection was lost during the statement, which may have been executed. */
	lost: { isUnwritten: false, isSentAgain: true, reason: 'connection' },
	/** No response in time, by our clock. The statement may still be executed. */
	late: { isUnwritten: false, isSentAgain: true, reason: 'deadline' },
	/** No error of a database. */
	unknown: { isUnwritten: false, reason: 'connection' },
	/** The connection was never open, so no statement was sent. */
	unreachable: { isUnwritten: true, reason: 'connection' },
	/** The server accepts no connections at the moment. */
	unavailable: { isUnwritten: true, isSentAgain: true, isRefused: true, reason: 'connection' },
	/** The server is a standby or a former primary, or its operator has made it read-only. */
	'read-only': { isUnwritten: true, isSentAgain: true, reason: 'connection' },
	/** A pooler has led the statement to a connection of the server that does not know it, more than once. */
	unprepared: { isUnwritten: true, isSentAgain: true, reason: 'connection' },
	/** The server has refused the statement because of other statements. */
	conflict: { isUnwritten: true, isSentAgain: true, isRefused: true, reason: 'statement' },
	/** The server has ended the statement at its time limit. */
	timeout: { isUnwritten: true, isSentAgain: true, isRefused: true, reason: 'deadline' },
	/** The user, the password or the database is wrong. */
	access: { isUnwritten: true, isPermanent: true, reason: 'connection' },
	/** The tables, the rights or the settings are not those of this release. */
	setup: { isUnwritten: true, isRefused: true, isPermanent: true, reason: 'statement' },
	/** The server has rejected this statement. */
	statement: { isUnwritten: true, isRefused: true, reason: 'statement' },
} as const satisfies Record<string, Consequences>;

/** What an error means for its statement. */
export type ErrorKind = keyof typeof consequences;

/** Why Node.js refuses a certificate. */
const certificateErrors = [
	'CERT_HAS_EXPIRED',
	'CERT_NOT_YET_VALID',
	'CERT_UNTRUSTED',
	'DEPTH_ZERO_SELF_SIGNED_CERT',
	'ERR_TLS_CERT_ALTNAME_INVALID',
	'SELF_SIGNED_CERT_IN_CHAIN',
	'UNABLE_TO_GET_ISSUER_CERT',
	'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
	'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
];

/** What to do about parameters that clients of PostgreSQL do not pass on to the server, and this one does. */
const parameterAdvice: Record<string, string> = {
	sslrootcert: 'set NODE_EXTRA_CA_CERTS to the file of the authority',
	host: 'write the host before the database, the folder of a socket as %2Fvar%2Frun%2Fpostgresql',
};

/**
 * The kind of an error by its SQLSTATE, the class of its SQLSTATE (two characters), or the code of the client or the
 * network.
 *
 * An ERROR of the server has rolled the statement back, and the connection stays open. `lost` are the FATAL errors that end
 * an open connection: they may come after a commit, so they prove no more than a lost connection does.
 */
const kinds: Record<string, ErrorKind> = {
	'08': 'lost', // connection exception, of a pooler
	'57P01': 'lost', // admin shutdown
	'57P02': 'lost', // crash shutdown
	'57P05': 'lost', // idle session timeout
	CONNECTION_CLOSED: 'lost',
	CONNECTION_DESTROYED: 'lost',
	ECONNABORTED: 'lost',
	ECONNRESET: 'lost',
	EHOSTDOWN: 'lost',
	EHOSTUNREACH: 'lost',
	ENETDOWN: 'lost',
	ENETRESET: 'lost',
	ENETUNREACH: 'lost',
	EPIPE: 'lost',
	ETIMEDOUT: 'lost',

	QUERY_DEADLINE: 'late',

	CONNECT_TIMEOUT: 'unreachable',
	CONNECTION_ENDED: 'unreachable', // the client was closed before
	EAI_AGAIN: 'unreachable',
	ECONNREFUSED: 'unreachable',
	ENOTFOUND: 'unreachable',
	NO_SUITABLE_SERVER: 'unreachable',
	TLS_UNAVAILABLE: 'unreachable',
	...Object.fromEntries(certificateErrors.map((code) => [code, 'unreachable'] as const)),

	'53300': 'unavailable', // too many connections
	'57P03': 'unavailable', // cannot connect now
	'25006': 'read-only', // read-only SQL transaction
	'26000': 'unprepared', // invalid SQL statement name
	'40001': 'conflict', // serialization failure
	'40P01': 'conflict', // deadlock detected
	'55P03': 'conflict', // lock not available
	'57014': 'timeout', // query canceled

	'28': 'access', // invalid user or password
	'3D000': 'access', // no such database
	'22023': 'setup', // invalid parameter value
	'42501': 'setup', // insufficient privilege
	'42P01': 'setup', // undefined table
	'42703': 'setup', // undefined column
	'42883': 'setup', // undefined function
	'42704': 'setup', // undefined object
	CLEARTEXT_PASSWORD: 'access',
};

interface ErrorMeaning extends Consequences {
	kind: ErrorKind;
	/** The SQLSTATE or the code of the client; empty if there is none. */
	code: string;
}

/** Says what an error means, or the cause of a `DatabaseError`. Nothing else decides this. */
export function classify(error: unknown): ErrorMeaning {
	const cause = error instanceof DatabaseError ? error.cause : error;
	const code = errorCode(cause) ?? '';
	const { severity, syscall } = (cause ?? {}) as { severity?: unknown; syscall?: unknown };
	const isFromServer = typeof severity === 'string';
	// Such as ENOENT, when a socket is not there.
	const otherwise = syscall === 'connect' ? 'unreachable' : 'unknown';
	const kind = kinds[code] ?? (isFromServer ? (kinds[code.slice(0, 2)] ?? 'statement') : otherwise);
	const meaning: ErrorMeaning = { kind, code, ...consequences[kind] };
	return cause instanceof DatabaseBusyError ? { ...meaning, reason: 'busy' } : meaning;
}

/** The SQLSTATE or the client's code of an error, such as `57P01` or `CONNECTION_CLOSED`. */
export function errorCode(error: unknown): string | undefined {
	const code = (error as { code?: unknown } | null | undefined)?.code;
	return typeof code === 'string' ? code : undefined;
}

const olderTables = 'The tables of the database are older than this release: run "contacts migrate" first.';
const connectionLost = { command: 'The connection to the database was lost. Try again.' };

/** Who reads why the database has failed. */
type Reader = 'service' | 'command' | 'migrate' | 'migrate --roles';

/** What an error means for people, by its SQLSTATE, the class of its SQLSTATE, or the code of the client: for all, or for each. */
const sentences: Record<string, string | Partial<Record<Reader, string>>> = {
	'25006': { command: 'The database is read-only: set DATABASE_URL to the primary server.' },
	'28': 'The database refuses the user or the password in DATABASE_URL.',
	'3D000': 'The database that DATABASE_URL names does not exist.',
	'42501': {
		service:
			'The database user of DATABASE_URL lacks rights: run "contacts migrate" and connect with the role of this service.',
		command:
			'The database user may not do this: connect as contacts_privacy for "contacts person", else as the operator or the owner.',
		migrate:
			'Only the owner of the database can migrate it: contacts_owner, once a superuser has run "contacts migrate --roles". DATABASE_URL names another user.',
		'migrate --roles':
			'The user in DATABASE_URL may not create roles or change the owner, so nothing was changed: say --roles as a superuser or as the provider’s administrator.',
	},
	'42703': olderTables,
	'42883': olderTables,
	'42P01': 'The database has no tables yet: run "contacts migrate" first.',
	'42P07': 'The database has tables of another program with the same names: use a database for the contacts alone.',
	'53100': 'The disk of the database is full.',
	'55P03': { command: 'Somebody else has been writing for 10 seconds, so this was not done. Try again, or stop them.' },
	CLEARTEXT_PASSWORD:
		'The database asks for the password in clear, so it was not sent: use sslmode=verify-full in DATABASE_URL, or scram-sha-256 on the server.',
	CONNECTION_CLOSED: connectionLost,
	CONNECTION_ENDED: connectionLost,
	// The lost connection was written to before its end was read.
	ECONNRESET: connectionLost,
	EPIPE: connectionLost,
	ERR_INVALID_URL: `DATABASE_URL is wrong: it must be ${databaseUrlForm}.`,
	ERR_TLS_CERT_ALTNAME_INVALID:
		"The database's certificate is for another name than that in DATABASE_URL: use its name, or sslmode=verify-ca.",
	TLS_UNAVAILABLE:
		'The database has no TLS, which sslmode in DATABASE_URL asks for: set up TLS there, or use sslmode=disable.',
};

/**
 * One line on what is wrong with the database. Undefined for an error that is not about it.
 *
 * @param hostList where the database is, if it may be shown
 */
export function describeDatabaseError(error: unknown, reader: Reader, hostList?: string): string | undefined {
	if (error instanceof UnsupportedDatabaseError) return error.message;
	const { kind, code } = classify(error);
	const known = sentences[code] ?? sentences[code.slice(0, 2)];
	const sentence = typeof known === 'string' ? known : known?.[reader];
	if (sentence !== undefined) return sentence;
	if (isParameterRefused(error, code)) {
		// The server may speak any language, and a pooler says it in other words.
		const name = /"([\w.]+)"|parameter: (\w+)/
			.exec((error as Error).message)
			?.slice(1)
			.find(Boolean);
		if (name === undefined) return 'DATABASE_URL is wrong: the server refuses one of its parameters.';
		return `DATABASE_URL is wrong: the server refuses its parameter "${name}": ${parameterAdvice[name] ?? 'leave it out'}.`;
	}
	if (certificateErrors.includes(code))
		return `The database's certificate can't be verified (${code}): set NODE_EXTRA_CA_CERTS to the file of its authority, or renew it.`;
	if (code === 'NO_SUITABLE_SERVER') return `The database can't be used: ${(error as Error).message}.`;
	if (kind === 'lost' || kind === 'unreachable')
		return `The database${hostList ? ` at ${hostList}` : ''} does not respond (${code}). Is it running, and is DATABASE_URL right?`;
	return undefined;
}

/** Whether the server or a pooler has refused a connection for a parameter of the URL. */
function isParameterRefused(error: unknown, code: string): boolean {
	const { severity, message } = error as { severity?: string; message?: string };
	if (severity !== 'FATAL') return false;
	return code === '22023' || code === '42704' || (code === '08P01' && /startup parameter/.test(message ?? ''));
}
