export interface Host {
	/** A name or an address; an IPv6 address without its brackets; or, alone, the folder of a socket, which begins with `/`. */
	host: string;
	port: number;
}

/** The parsed `DATABASE_URL`. */
export interface DatabaseUrl {
	/** In the order of the URL. */
	hosts: [Host, ...Host[]];
	database: string;
	/** The same URL with only its first host and without `target_session_attrs`, which the client can parse. */
	ofFirstHost: string;
	/** Null: without TLS, unless a setting of the client says otherwise. */
	sslMode: string | null;
	/** The hosts as in the URL. Only they and the database's name may be shown to people. */
	hostList: string;
}

/** Those of libpq. */
const sslModes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];

/** The values of libpq that find the primary. No other server is ever used. */
const targets = ['read-write', 'primary'];

/** What a URL must be, to complete a sentence for people. */
export const databaseUrlForm = `a URL like postgres://user:password@host:5432/database, or with several hosts postgres://user:password@host1:5432,host2:5432/database; characters such as @ / ? # % within a part are percent-encoded; sslmode may be ${sslModes.join(', ')}`;

// A second @ is that of a password which is not encoded: its end would be shown as the host.
const shape = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#@]*)(\/[^?#@]*)?(?:\?([^#@]*))?$/;
const hostShape = /^(?:\[([0-9a-f:.]+)\]|([^:[\]\s]+))(?::([0-9]{1,5}))?$/i;

/**
 * Reads a URL like `postgres://user:password@host:5432/database?sslmode=require`. Several hosts are separated by commas;
 * each may have a port, with the default 5432. A host may be the folder of a socket, percent-encoded:
 * `%2Fvar%2Frun%2Fpostgresql`.
 *
 * @returns undefined for anything else
 */
export function parseDatabaseUrl(text: string): DatabaseUrl | undefined {
	const parts = shape.exec(text);
	if (parts === null) return undefined;
	const [, credentials, hostList = '', path = '', query = ''] = parts;
	const [first, ...others] = hostList.split(',').map(parseHost);
	if (first === undefined || !isAll(others)) return undefined;
	if (others.length > 0 && [first, ...others].some(({ host }) => host.startsWith('/'))) return undefined;
	const parameters = new URLSearchParams(query);
	if (!parameters.getAll('sslmode').every((mode) => sslModes.includes(mode))) return undefined;
	if (!parameters.getAll('target_session_attrs').every((target) => targets.includes(target))) return undefined;
	parameters.delete('target_session_attrs');

	const userInfo = credentials === undefined ? '' : `${credentials}@`;
	const rest = parameters.size > 0 ? `?${parameters}` : '';
	const ofFirstHost = `postgres://${userInfo}${hostList.split(',')[0]}${path}${rest}`;
	if (!URL.canParse(ofFirstHost)) return undefined;
	const { username, password } = new URL(ofFirstHost);
	const decoded = [username, password, path.slice(1)].map(decode);
	if (!isAll(decoded)) return undefined;
	return {
		hosts: [first, ...others],
		database: decoded[2] ?? '',
		ofFirstHost,
		sslMode: parameters.get('sslmode'),
		hostList,
	};
}

/** @throws TypeError with the code ERR_INVALID_URL, as `new URL` does */
export function readDatabaseUrl(text: string): DatabaseUrl {
	const url = parseDatabaseUrl(text);
	if (url === undefined) throw Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL' });
	return url;
}

function parseHost(text: string): Host | undefined {
	const [, address, name, port = '5432'] = hostShape.exec(text) ?? [];
	const host = address ?? decode(name ?? '');
	if (!host || Number(port) > 65_535) return undefined;
	return { host, port: Number(port) };
}

function isAll<T>(values: (T | undefined)[]): values is T[] {
	return !values.includes(undefined);
}

/** @returns undefined if the percent-encoding is malformed */
function decode(text: string): string | undefined {
	try {
		return decodeURIComponent(text);
	} catch {
		return undefined;
	}
}
