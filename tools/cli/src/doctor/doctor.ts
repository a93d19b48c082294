import type { Sql } from '@contacts/common/database/client.js';
import { readDatabaseUrl } from '@contacts/common/database/database-url.js';
import { findDatabaseUrl, withDatabase } from '../connection.js';
import { describeError } from '../errors.js';
import type { Finding } from './check.js';
import { checkCrm, checkSynchroniser } from './check-crm.js';
import * as check from './check-database.js';
import { checkRedis } from './check-redis.js';

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
	let mirrored: number | undefined;

	async function examineReached(sql: Sql, url: string): Promise<Finding[]> {
		const schema = await check.checkSchema(sql);
		const findings = [...(await check.checkDatabase(sql, url)), ...(await check.checkClock(sql, now)), ...schema];
		if (schema.some(({ state }) => state !== 'ok')) return [...findings, ...inTables.map(skipped('the schema'))];
		findings.push(...(await check.checkOwner(sql)), ...(await check.checkRoles(sql)), ...(await check.checkKeys(sql)));
		findings.push(...(await checkSynchroniser(sql, environment, now)));
		const [{ count }] = await sql<[{ count: number }]>`select count(*)::float8 as count from company_contacts`;
		mirrored = count;
		return findings;
	}

	async function examineDatabase(): Promise<Finding[]> {
		const unreached = (problem: Finding) => [problem, ...['clock', 'schema', ...inTables].map(skipped('the database'))];
		let url: string;
		try {
			url = await findDatabaseUrl(environment);
			readDatabaseUrl(url);
		} catch (error) {
			const advice = 'Set DATABASE_URL to a URL like postgres://user:password@host:5432/database.';
			return unreached({ check: 'database', state: 'problem', message: describeError(error), advice });
		}
		return withDatabase(environment, (sql) => examineReached(sql, url)).catch((error) =>
			unreached(check.explainConnection(error, url)),
		);
	}

	return [
		...(await examineDatabase()),
		...(await checkRedis(environment.REDIS_URL)),
		...(await checkCrm(environment, mirrored, now, portalTimeoutMs)),
	];
}

const skipped =
	(because: string) =>
	(check: string): Finding => ({ check, state: 'skipped', message: `Not checked, because of ${because}.` });
