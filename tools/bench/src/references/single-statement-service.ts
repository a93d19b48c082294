/** personal-contacts, with one statement for each request. */
import { runServiceWith } from './service-with.js';
import { runSingleStatement } from './single-statement.sql.js';

await runServiceWith(async (database, contact, projectId) => {
	const values = {
		...contact,
		project_id: projectId,
		has_username: contact.username !== undefined,
		has_name: contact.name !== undefined,
		has_birth_date: contact.birth_date !== undefined,
	};
	return (await database.query((sql) => runSingleStatement(sql, values))).length > 0;
});
