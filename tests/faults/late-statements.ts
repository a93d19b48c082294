import { addProject } from '@contacts/testing/app.js';
import type { RunningService } from '@contacts/testing/services.js';
import { database } from '@contacts/testing/test.js';
import { onTestFinished, vi } from 'vitest';
import { startService } from '../services.js';

// Two replicas of personal-contacts. A's connections to the database stall, so its statements arrive late. B's are not
// affected.

const user = 'personal-contacts';

/** Adds the project, and a trigger that counts every statement executed on this table, even one that writes nothing. */
export async function prepare(table: string): Promise<void> {
	await addProject(database.sql, 'bot', 'bot-key');
	await database.sql.unsafe(`
		create sequence executed;
		create function note_execution() returns trigger language plpgsql security definer as
			$$ begin perform nextval('public.executed'); return null; end $$;
		create trigger note_execution before insert on ${table} for each statement execute function note_execution()`);
}

/** The server may not have noticed yet that the replicas were killed. */
export async function endSessions(): Promise<void> {
	await database.sql`
		select pg_terminate_backend(pid) from pg_stat_activity where application_name = ${user} and datname = current_database()`;
}

export async function start(url: string, environment: Record<string, string> = {}): Promise<RunningService> {
	const service = await startService(user, { DATABASE_URL: url, ...environment });
	onTestFinished(() => service.stop('SIGKILL'));
	return service;
}

export const executed = async () =>
	(await database.sql<{ count: number }[]>`select last_value::int as count from executed`)[0]?.count ?? 0;

/** Waits until the services have had no in-flight statement of a request for a moment. They also check keys all the time. */
export async function databaseIsQuiet(): Promise<void> {
	let quiet = 0;
	await vi.waitUntil(
		async () => {
			const active = await database.sql`
				select from pg_stat_activity where application_name = ${user} and state = 'active' and datname = current_database()
				  and query ~* 'personal_contacts|direct_subscription'`;
			quiet = active.length === 0 ? quiet + 1 : 0;
			return quiet === 10;
		},
		{ timeout: 120_000, interval: 50 },
	);
}
