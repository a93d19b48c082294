import { existsSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import type { TestProject } from 'vitest/node';
import { templateDatabase, withConnection } from './database.js';
import { createRoles } from './roles.js';

/** The space that must be free in `/dev/shm`. A run needs less than 2 GB of it, and its processes share this memory. */
const minFreeBytes = 6 * 1024 ** 3;

/** Where the databases are stored. Memory is used if there is enough: copying the template takes a third of the time there. */
function databaseRoot(): string {
	const inMemory = '/dev/shm';
	if (!existsSync(inMemory)) return tmpdir();
	const { bavail, bsize } = statfsSync(inMemory);
	return bavail * bsize > minFreeBytes ? inMemory : tmpdir();
}

/**
 * One real PostgreSQL for the whole run, with a migrated template that every test file copies. Set TEST_DATABASE_URL to a
 * superuser's URL to run against another server, from PostgreSQL 15 on.
 */
export default async function setUp(project: TestProject): Promise<undefined | (() => Promise<void>)> {
	// The others inherit from it what it provides.
	if (!project.isRootProject()) return;
	const given = process.env.TEST_DATABASE_URL;
	const folder = mkdtempSync(join(databaseRoot(), 'contacts-test-'));
	const server = given
		? undefined
		: await startLocalPostgres({
				dataDirectory: join(folder, 'postgres'),
				password: 'test',
				// No data of a test run has to survive a crash of the machine.
				settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '300' },
			});
	const url = server?.url('DATABASE') ?? Object.assign(new URL(given ?? ''), { pathname: '/DATABASE' }).href;

	const superuserUrl = url.replace('DATABASE', 'postgres');
	await withConnection(superuserUrl, async (sql) => {
		await sql.unsafe(`drop database if exists ${templateDatabase}`);
		await sql.unsafe(`create database ${templateDatabase} template template0 encoding 'UTF8'`);
	});
	await createRoles(superuserUrl);
	await migrate(url.replace('DATABASE', templateDatabase));

	project.provide('databaseUrl', url);
	return async () => {
		await server?.stop();
		rmSync(folder, { recursive: true, force: true });
	};
}
