import type { Sql } from '@contacts/common/database/client.js';
import { roles } from '@contacts/common/database/roles.js';
import { type Finding, findingsOf } from './check.js';
import { readOwner, readRoles } from './doctor.sql.js';

/** Whether each role exists, can log in, and is an ordinary one. The tests of the schema prove the rights that migrations give. */
export async function checkRoles(sql: Sql): Promise<Finding[]> {
	const { found, ok, problem, warning } = findingsOf('roles');
	const names = Object.values(roles);
	const there = await readRoles(sql, names);
	for (const name of names) {
		const role = there.find((row) => row.name === name);
		if (role === undefined)
			problem(
				`The role ${name} does not exist.`,
				'As a superuser: run packages/common/owner.sql, then: contacts migrate',
			);
		else if (role.is_privileged)
			problem(
				`${name} is no ordinary role.`,
				`As a superuser: alter role ${name} nosuperuser nocreaterole nobypassrls;`,
			);
		else if (!role.can_login)
			warning(
				`${name} can't log in.`,
				`Where it is used, as a superuser: \\password ${name} and: alter role ${name} login;`,
			);
	}
	if (found.length === 0) ok(`All ${names.length} roles exist and can log in.`);
	return found;
}

/** How powerful the owner of the tables is, and whether others could create objects that its functions would find. */
export async function checkOwner(sql: Sql): Promise<Finding[]> {
	const { found, ok, problem, warning } = findingsOf('owner');
	const { owner, is_superuser, can_join_roles, database, temporary, creating } = await readOwner(
		sql,
		Object.values(roles),
	);
	if (temporary.length > 0)
		problem(
			`Temporary tables, which are found before those of the schema, may be created by ${temporary.join(', ')}.`,
			`As the owner of the database: revoke temporary on database ${quote(database)} from ${temporary.join(', ')};`,
		);
	if (creating.length > 0)
		problem(
			`Objects in the schema public may be created by ${creating.join(', ')}.`,
			`As the owner of the schema: grant create on schema public to ${quote(owner)}; revoke create on schema public from ${creating.join(', ')};`,
		);
	if (is_superuser)
		warning(
			`The tables belong to ${owner}, a superuser: an error in a function would give away the whole server.`,
			'Give them to a role that is no superuser (docs/operators.md, "The owner of the database").',
		);
	else if (can_join_roles)
		warning(
			`${owner} may create roles, and so join one that runs programs on the server.`,
			`As a superuser: alter role ${quote(owner)} nocreaterole; (packages/common/owner.sql does it).`,
		);
	if (found.length === 0) ok(`The tables belong to ${owner}, which is no superuser, and no role can create objects.`);
	return found;
}

const quote = (name: string) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
