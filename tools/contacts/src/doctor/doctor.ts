import type { Sql } from '@contacts/common/database/client.js';
import { readDatabaseUrl } from '@contacts/common/database/database-url.js';
import { findDatabaseUrl, withDatabase } from '../connection.js';
import { describeError } from '../describe-error.js';
import type { Finding } from './check.js';
import { checkCrm, checkSynchroniser } from './check-crm.js';
import { checkClock, checkDatabase, checkMigrations } from './check-database.js';
import { checkOwner } from './check-owner.js';
import { checkPasswords } from './check-passwords.js';
import { checkRedis } from './check-redis.js';
import { checkRoles } from './check-roles.js';
import { countContacts } from './doctor.sql.js';

/**
 * @param now this machine's clock, milliseconds since the epoch
 * @param portalTimeoutMs timeout for requests to the CRM
 */
export async function examine(
	environment: NodeJS.ProcessEnv,
	now: () => number,
	portalTimeoutMs?: number,
): Promise<Finding[]> {
	const { findings, mirrored } = await examineDatabase(environment, now);
	findings.push(...checkPasswords(environment));
	findings.push(...(await checkRedis(environment.REDIS_URL)));
	findings.push(...(await checkCrm(environment, mirrored, now, portalTimeoutMs)));
	return findings;
}

interface DatabaseFindings {
	findings: Finding[];
	/** The number of stored contacts. Undefined: unknown. */
	mirrored: number | undefined;
}

async function examineDatabase(environment: NodeJS.ProcessEnv, now: () => number): Promise<DatabaseFindings> {
	try {
		const url = await findDatabaseUrl(environment);
		const { hostList, database } = readDatabaseUrl(url);
		return await withDatabase(environment, (sql) => checkAll(sql, environment, `${hostList}/${database}`, now));
	} catch (error) {
		const problem: Finding = {
			check: 'database',
			state: 'problem',
			message: describeError(error),
			advice: 'Set DATABASE_URL to a PostgreSQL that runs, such as postgres://user:password@host:5432/database.',
		};
		const hidden = ['clock', 'migrations', 'roles', 'owner', 'synchroniser'].map(skipped('the database'));
		return { findings: [problem, ...hidden], mirrored: undefined };
	}
}

async function checkAll(
	sql: Sql,
	environment: NodeJS.ProcessEnv,
	place: string,
	now: () => number,
): Promise<DatabaseFindings> {
	const findings = [...(await checkDatabase(sql, place)), ...(await checkClock(sql, now))];
	const migrations = await checkMigrations(sql);
	findings.push(...migrations);
	if (migrations.some(({ state }) => state !== 'ok')) {
		findings.push(...['roles', 'owner', 'synchroniser'].map(skipped('the schema')));
		return { findings, mirrored: undefined };
	}
	findings.push(...(await checkRoles(sql)), ...(await checkOwner(sql)));
	findings.push(...(await checkSynchroniser(sql, environment, now)));
	return { findings, mirrored: await countContacts(sql) };
}

const skipped =
	(because: string) =>
	(check: string): Finding => ({ check, state: 'skipped', message: `Not looked at, because of ${because}.` });
