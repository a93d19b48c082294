import type { Sql } from '@contacts/common/database/client.js';
import { readDatabaseUrl } from '@contacts/common/database/database-url.js';
import { findDatabaseUrl, withDatabase } from '../connection.js';
import { describeError } from '../describe-error.js';
import type { Finding } from './check.js';
import { checkCrm, checkSynchroniser } from './check-crm.js';
import { checkClock, checkDatabase, checkSchema, explainConnection } from './check-database.js';
import { checkKeys } from './check-keys.js';
import { checkRedis } from './check-redis.js';
import { checkOwner, checkRoles } from './check-roles.js';
import { countContacts } from './doctor.sql.js';

/** What can only be checked in the tables. */
const inTables = ['owner', 'roles', 'keys', 'synchroniser'];

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
	let url: string | undefined;
	try {
		url = await findDatabaseUrl(environment);
		readDatabaseUrl(url);
	} catch (error) {
		const advice = 'Set DATABASE_URL to a URL like postgres://user:password@host:5432/database.';
		return unreached({ check: 'database', state: 'problem', message: describeError(error), advice });
	}
	const address = url;
	try {
		return await withDatabase(environment, (sql) => examineReached(sql, environment, address, now));
	} catch (error) {
		return unreached(explainConnection(error, address));
	}
}

const unreached = (problem: Finding): DatabaseFindings => ({
	findings: [problem, ...['clock', 'schema', ...inTables].map(skipped('the database'))],
	mirrored: undefined,
});

async function examineReached(
	sql: Sql,
	environment: NodeJS.ProcessEnv,
	url: string,
	now: () => number,
): Promise<DatabaseFindings> {
	const schema = await checkSchema(sql);
	const findings = [...(await checkDatabase(sql, url)), ...(await checkClock(sql, now)), ...schema];
	if (schema.some(({ state }) => state !== 'ok'))
		return { findings: [...findings, ...inTables.map(skipped('the schema'))], mirrored: undefined };
	findings.push(...(await checkOwner(sql)), ...(await checkRoles(sql)), ...(await checkKeys(sql)));
	findings.push(...(await checkSynchroniser(sql, environment, now)));
	return { findings, mirrored: await countContacts(sql) };
}

const skipped =
	(because: string) =>
	(check: string): Finding => ({ check, state: 'skipped', message: `Not checked, because of ${because}.` });
