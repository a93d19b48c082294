import type { Sql } from '@contacts/common/database/client.js';
import { roles } from '@contacts/common/database/roles.js';
import { type Finding, findingsOf } from './check.js';
import { readOwner } from './doctor.sql.js';

/** Whether a role could run code with the rights of the tables' owner, and how powerful that owner is. */
export async function checkOwner(sql: Sql): Promise<Finding[]> {
	const { found, ok, problem, warning } = findingsOf('owner');
	const names = Object.values(roles);
	const { owner, is_superuser, database, temporary, creating, unsafe_functions } = await readOwner(sql, names);
	for (const name of unsafe_functions) {
		problem(
			`${name} runs with the rights of ${owner}, and uses tables that its caller has made under the same name.`,
			`As the owner: alter function ${name} set search_path = pg_catalog, public, pg_temp;`,
		);
	}
	for (const name of holders(temporary)) {
		problem(
			`${who(name)} may create temporary tables, which are found before those of the schema.`,
			`As the owner of the database: revoke temporary on database ${quote(database)} from ${name};`,
		);
	}
	for (const name of holders(creating)) {
		problem(
			`${who(name)} may create objects in the schema public.`,
			`As the owner of the schema: grant create on schema public to ${quote(owner)}; revoke create on schema public from ${name};`,
		);
	}
	if (is_superuser) {
		warning(
			`The tables belong to ${owner}, a superuser: an error in a function would give away the whole server.`,
			'Give them to a role that is no superuser (docs/operators.md, "The owner of the database").',
		);
	}
	if (found.length === 0) ok(`The tables belong to ${owner}, which is no superuser, and no role can create objects.`);
	return found;
}

/** Reports rights of `public` only once. */
const holders = (names: readonly string[]) => (names.includes('public') ? ['public'] : names);

const who = (name: string) => (name === 'public' ? 'Every role' : name);

const quote = (name: string) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
