import { readDatabaseUrl } from '@contacts/common/database/database-url.js';
import { findDatabaseUrl, withDatabase } from '../connection.js';
import { describeError } from '../errors.js';
import { type Finding, findingsOf } from './check.js';
import { checkCrm, checkSynchroniser } from './check-crm.js';
import { checkKeys, checkOwner, checkRoles, checkSchema, checkServer } from './check-database.js';
import { checkRedis } from './check-redis.js';

export async function examine(environment: NodeJS.ProcessEnv): Promise<Finding[]> {
	return [
		...(await checkDatabase(environment)),
		...(await checkRedis(environment.REDIS_URL)),
		...(await checkCrm(environment)),
	];
}

async function checkDatabase(environment: NodeJS.ProcessEnv): Promise<Finding[]> {
	const { found, problem } = findingsOf('database');
	try {
		const url = findDatabaseUrl(environment);
		const { hostList, database } = readDatabaseUrl(url);
		return await withDatabase(environment, async (sql) => {
			const schema = await checkSchema(sql);
			const findings = [...(await checkServer(sql, url, `${hostList}/${database}`)), ...schema];
			// The others need the tables of this release.
			if (schema.some(({ state }) => state !== 'ok')) return findings;
			return [
				...findings,
				...(await checkOwner(sql)),
				...(await checkRoles(sql)),
				...(await checkKeys(sql)),
				...(await checkSynchroniser(sql, environment)),
			];
		});
	} catch (error) {
		problem(
			describeError(error),
			'Correct host, user, password and name in DATABASE_URL, or start PostgreSQL there. A firewall or pg_hba.conf may refuse this machine (docs/deploy.md).',
		);
		return found;
	}
}
