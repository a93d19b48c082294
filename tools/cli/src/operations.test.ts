import { type RoleUser, urlAs } from '@contacts/common/database/roles.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';
import { operations, recordOperation } from './projects.sql.js';

test.each<RoleUser>(['operator', 'privacy'])('the role %s can record every operation of the command', async (user) => {
	const sql = postgres(urlAs(database.url, user, rolePassword), { max: 1 });
	onTestFinished(() => sql.end());
	for (const operation of operations) await recordOperation(sql, operation, {});
	const rows = await database.sql`select action from audit_log where role = ${`contacts_${user}`} order by id`;
	expect(rows.map(({ action }) => action)).toEqual([...operations]);
});
