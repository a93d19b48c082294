import type { Sql } from '@contacts/common/database/client.js';
import { newestSchema } from '@contacts/common/database/migrate.js';
import { readSchemaVersion } from '../backup/tables.sql.js';
import { type Finding, findingsOf, seconds } from './check.js';
import { readClock, readServer } from './doctor.sql.js';

/** The oldest supported server, as `server_version_num`. */
const oldestServer = 150_000;

/** The largest acceptable difference between two clocks. */
const clockToleranceMs = 2000;

/** @param place the database's address without the password */
export async function checkDatabase(sql: Sql, place: string): Promise<Finding[]> {
	const { found, ok, problem } = findingsOf('database');
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
	if (found.length === 0) ok(`PostgreSQL ${server.version} at ${place} responds.`);
	return found;
}

/** Whether the schema is that of this release. */
export async function checkMigrations(sql: Sql): Promise<Finding[]> {
	const { found, ok, problem, warning } = findingsOf('migrations');
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
