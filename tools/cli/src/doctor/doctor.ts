import { readDatabaseUrl } from '@contacts/common/database/database-url.js';
import { findDatabaseUrl, withDatabase } from '../connection.js';
import { describeError } from '../errors.js';
import { type Finding, findingsOf } from './check.js';
import { checkCrm, checkSynchroniser } from './check-crm.js';
import { checkOwner, checkRoles, checkSchema, checkServer } from './check-database.js';
import { checkRedis } from './check-redis.js';

export async function examine(environment: NodeJS.ProcessEnv): Promise<Finding[]> {
	return [
		...(await checkDatabase(environment)),
		...(await findingsOf('redis', checkRedis(environment.REDIS_URL))),
		...(await findingsOf('crm', checkCrm(environment))),
	];
}

async function checkDatabase(environment: NodeJS.ProcessEnv): Promise<Finding[]> {
	let url: string;
	try {
		url = findDatabaseUrl(environment);
	} catch (error) {
		return [{ check: 'database', state: 'problem', message: describeError(error, environment) }];
	}
	try {
		const { hostList, database } = readDatabaseUrl(url);
		return await withDatabase(environment, async (sql) => {
			const server = await findingsOf('database', checkServer(sql, url, `${hostList}/${database}`));
			const schema = await findingsOf('schema', checkSchema(sql));
			// The others need the tables of this release.
			if (schema.some(({ state }) => state !== 'ok')) return [...server, ...schema];
			return [
				...server,
				...schema,
				...(await findingsOf('owner', checkOwner(sql))),
				...(await findingsOf('roles', checkRoles(sql))),
				...(await findingsOf('synchroniser', checkSynchroniser(sql, environment))),
			];
		});
	} catch (error) {
		const advice =
			'Correct host, user, password and name in DATABASE_URL, or start PostgreSQL there. A firewall or pg_hba.conf may refuse this machine (docs/deploy.md).';
		return [{ check: 'database', state: 'problem', message: describeError(error, environment), advice }];
	}
}
