import type { Sql } from '@contacts/common/database/client.js';
import { readDatabaseUrl } from '@contacts/common/database/database-url.js';
import { errorCode, isUnreachable } from '@contacts/common/database/errors.js';
import { newestSchema } from '@contacts/common/database/migrate.js';
import { describeError } from '../describe-error.js';
import { type Finding, findingsOf, seconds } from './check.js';
import { readClock, readSchemaVersion, readServer } from './doctor.sql.js';

/** The oldest supported server, as `server_version_num`. */
const oldestServer = 150_000;

/** The largest acceptable difference between two clocks. */
const clockToleranceMs = 2000;

/** The default passwords of the compose file, for a machine that nobody else can reach. */
const defaultPassword = /local-only-[a-z]+/;

/** Whether the server is one that the services can use, and keeps what it has acknowledged. */
export async function checkDatabase(sql: Sql, url: string): Promise<Finding[]> {
	const { found, ok, problem, warning } = findingsOf('database');
	const { hostList, database } = readDatabaseUrl(url);
	const server = await readServer(sql);
	if (server.version_number < oldestServer)
		problem(`PostgreSQL ${server.version} is too old.`, 'Move to PostgreSQL 15 or newer.');
	if (server.encoding !== 'UTF8')
		problem(
			`The database has the encoding ${server.encoding}.`,
			'Create one with the encoding UTF8, and restore a backup.',
		);
	if (server.read_only)
		problem('This is a read replica: nothing can be saved here.', 'Set DATABASE_URL to the primary server.');
	for (const setting of ['fsync', 'full_page_writes', 'synchronous_commit'] as const) {
		if (server[setting] !== 'off') continue;
		problem(
			`${setting} is off: what was acknowledged as saved may be lost in a crash.`,
			`As a superuser: alter system set ${setting} = on; select pg_reload_conf(); and look for it in alter database and alter role.`,
		);
	}
	if (defaultPassword.test(url))
		warning(
			'DATABASE_URL has a default password of the compose file, which everybody knows.',
			'On a server, write a .env with "sh operations/new-env.sh" before the first start, or change it (docs/operators.md, "Keys").',
		);
	if (found.length === 0)
		ok(`PostgreSQL ${server.version} at ${hostList}/${database} responds, in ${server.encoding}.`);
	return found;
}

/** Why there is no connection to the database at this URL, and what to do about it. */
export function explainConnection(error: unknown, url: string): Finding {
	const { found, problem } = findingsOf('database');
	const { hostList, database, ofFirstHost } = readDatabaseUrl(url);
	const user = /^[a-z]+:\/\/([^:@/]*)[:@]/.exec(ofFirstHost)?.[1] || 'the user';
	const code = errorCode(error) ?? '';
	if (code === '28P01')
		problem(
			`${hostList} refuses ${user} or the password in DATABASE_URL.`,
			`Correct them in DATABASE_URL, or set the password as a superuser in psql: \\password ${user}`,
		);
	else if (code.startsWith('28'))
		problem(
			`${hostList} refuses ${user}.`,
			'Correct the user in DATABASE_URL. If it is right, let a superuser create it (packages/common/owner.sql) and pg_hba.conf admit it from this machine.',
		);
	else if (code === '3D000')
		problem(
			`There is no database ${database} at ${hostList}.`,
			'Correct the name in DATABASE_URL, or create the database (docs/operators.md).',
		);
	else if (code === '53300')
		problem(`All connections of ${hostList}, or of ${user}, are in use.`, 'End some of them, or raise the limit.');
	else if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
		problem(
			`The host ${hostList} is not known here (${code}).`,
			'Correct the host in DATABASE_URL, or the name server.',
		);
	else if (isUnreachable(error) && code !== 'CLEARTEXT_PASSWORD' && code !== 'NO_SUITABLE_SERVER')
		problem(
			`${hostList} does not respond (${code}).`,
			'Start PostgreSQL there, or correct host and port in DATABASE_URL. A firewall may be in between.',
		);
	else problem(`${hostList}: ${describeError(error)}`, 'Correct DATABASE_URL, or the server that it names.');
	return found[0] as Finding;
}

/** Whether the schema is that of this release. */
export async function checkSchema(sql: Sql): Promise<Finding[]> {
	const { found, ok, problem, warning } = findingsOf('schema');
	const [here, newest] = [await readSchemaVersion(sql), await newestSchema()];
	if (here === undefined) problem('The database has no tables yet.', 'As the owner: contacts migrate');
	else if (here < newest)
		problem(`The schema is ${here} and this release needs ${newest}.`, 'As the owner: contacts migrate');
	else if (here > newest)
		warning(
			`The schema is ${here} and this release knows only ${newest}.`,
			'After a roll-back this is expected. Otherwise use the release that migrated it, or a later one.',
		);
	else ok(`The schema is up to date (${here}).`);
	return found;
}

/** @param now this machine's clock, milliseconds since the epoch */
export async function checkClock(sql: Sql, now: () => number): Promise<Finding[]> {
	const { found, ok, problem } = findingsOf('clock');
	const before = now();
	const there = await readClock(sql);
	const after = now();
	const difference = there < before ? there - before : Math.max(0, there - after);
	if (Math.abs(difference) > clockToleranceMs) {
		problem(
			`This machine's clock is ${seconds(difference)} ${difference < 0 ? 'ahead of' : 'behind'} the database's: keys end at another time than they should.`,
			'Set both by NTP (timedatectl set-ntp true).',
		);
	} else ok(`This machine and the database agree on the time (within ${seconds(clockToleranceMs)}).`);
	return found;
}
