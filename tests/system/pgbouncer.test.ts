import { connect } from '@contacts/common/database/connect.js';
import { startPgBouncer } from '@contacts/testing/pgbouncer.js';
import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';

test('behind PgBouncer in transaction mode, DateStyle and TimeZone are ours on every connection of the server', async () => {
	const pgbouncer = await startPgBouncer(database.url);
	onTestFinished(() => pgbouncer.stop());
	const url = pgbouncer.through(database.url);
	const options = { max: 1, fetch_types: false };
	const foreign = postgres(url, { ...options, connection: { DateStyle: 'German', TimeZone: 'Asia/Tokyo' } });
	const ours = connect(url, options);
	onTestFinished(() => Promise.all([foreign.end(), ours.end()]).then(() => undefined));
	const read = (sql: postgres.Sql) => sql`
		select pg_backend_pid() as pid, '2024-03-01T00:00:00Z'::timestamptz::text as time`;
	const [first] = await read(foreign);
	expect(first?.time).toBe('01.03.2024 09:00:00 JST');
	expect(await read(ours)).toEqual([{ pid: first?.pid, time: '2024-03-01 00:00:00+00' }]);
});
