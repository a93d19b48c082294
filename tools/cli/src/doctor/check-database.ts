import type { Sql } from '@contacts/common/database/client.js';
import { newestSchema } from '@contacts/migrations/migrate.js';
import { roles } from '@contacts/migrations/roles.js';
import { type Check, problem, warning } from './check.js';

/** The oldest supported server, as `server_version_num`. */
const oldestServer = 150_000;

/** The default passwords of the compose file, for a machine that nobody else can reach. */
const defaultPassword = /local-only-[a-z]+/;

/** Whether the server is one that the services can use, and keeps what it has acknowledged. */
export async function* checkServer(sql: Sql, url: string, name: string): Check {
	const [server] = await sql<
		[{ number: number; version: string; encoding: string; is_standby: boolean; unsafe: string[] }]
	>`
		select current_setting('server_version_num')::int as number,
		       split_part(current_setting('server_version'), ' ', 1) as version,
		       current_setting('server_encoding') as encoding,
		       pg_is_in_recovery() as is_standby,
		       (select coalesce(json_agg(name order by name), '[]') from pg_settings
		        where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off') as unsafe`;
	if (server.number < oldestServer)
		yield problem(`PostgreSQL ${server.version} is too old.`, 'Move to PostgreSQL 15 or newer.');
	if (server.encoding !== 'UTF8')
		yield problem(`Its encoding is ${server.encoding}.`, 'Create one in UTF8, and restore a backup into it.');
	if (server.is_standby)
		yield problem('This is a read replica: nothing can be saved here.', 'Set DATABASE_URL to the primary server.');
	for (const setting of server.unsafe)
		yield problem(
			`${setting} is off: what was acknowledged as saved may be lost in a crash.`,
			`As a superuser: alter system set ${setting} = on; select pg_reload_conf(); and look for it in alter database and alter role.`,
		);
	if (defaultPassword.test(url))
		yield warning(
			'DATABASE_URL has a default password of the compose file, which everybody knows.',
			'On a server, write a .env with "sh operations/new-env.sh" before the first start, or change it (docs/run.md, "Keys and passwords").',
		);
	return `PostgreSQL ${server.version} at ${name} responds, in ${server.encoding}.`;
}

/** Whether the schema is that of this release. */
export async function* checkSchema(sql: Sql): Check {
	const newest = await newestSchema();
	const [{ exists }] = await sql<[{ exists: boolean }]>`
		select to_regclass('public.schema_migrations') is not null as exists`;
	const [{ here }] = exists
		? await sql<[{ here: number }]>`select coalesce(max(version), 0)::int as here from schema_migrations`
		: [{ here: 0 }];
	if (here === 0)
		yield problem(
			'The database has no tables yet.',
			'As a superuser, once: contacts migrate --roles (docs/deploy.md). If the roles exist, as the owner: contacts migrate',
		);
	else if (here < newest)
		yield problem(`The schema is ${here} and this release needs ${newest}.`, 'As the owner: contacts migrate');
	else if (here > newest)
		yield warning(
			`The schema is ${here} and this release knows only ${newest}.`,
			'After a roll-back this is expected. Otherwise use the release that migrated it, or a later one.',
		);
	return `The schema is up to date (${here}).`;
}

/** How powerful the owner of the tables is, and whether others could create objects that its functions would find. */
export async function* checkOwner(sql: Sql): Check {
	const [{ owner, is_superuser, can_join_roles, database, ...may }] = await sql<
		[
			Record<'owner' | 'database', string> &
				Record<'is_superuser' | 'can_join_roles', boolean> &
				Record<'temporary' | 'creating', string[]>,
		]
	>`
		with others (name) as (
			select 'public' union all select rolname from pg_roles where rolname in ${sql(Object.values(roles))} and not rolsuper
		)
		select o.rolname as owner, o.rolsuper as is_superuser, quote_ident(current_database()) as database,
		       o.rolcreaterole and current_setting('server_version_num')::int < 160000 as can_join_roles,
		       (select coalesce(json_agg(name), '[]') from others where has_database_privilege(name, current_database(), 'temporary')) as temporary,
		       (select coalesce(json_agg(name), '[]') from others where has_schema_privilege(name, 'public', 'create')) as creating
		from pg_class c join pg_roles o on o.oid = c.relowner where c.oid = 'public.projects'::regclass`;
	// Where everybody may, each role may.
	const holders = (names: string[]) => (names.includes('public') ? 'public' : names.join(', '));
	const [temporary, creating] = [holders(may.temporary), holders(may.creating)];
	if (temporary !== '')
		yield problem(
			`Temporary tables, which are found before those of the schema, may be created by ${temporary}.`,
			`As the owner of the database: revoke temporary on database ${database} from ${temporary};`,
		);
	if (creating !== '')
		yield problem(
			`Objects in the schema public may be created by ${creating}.`,
			`As the owner of the schema: revoke create on schema public from ${creating};`,
		);
	if (is_superuser)
		yield warning(
			`The tables belong to ${owner}, a superuser: an error in a function would give away the whole server.`,
			'Give them to a role that is no superuser (docs/deploy.md, "The database and its roles").',
		);
	else if (can_join_roles)
		yield warning(
			`${owner} may create roles, and so join one that runs programs on the server.`,
			`As a superuser: alter role ${owner} nocreaterole; (contacts migrate --roles does it).`,
		);
	return `The tables belong to ${owner}, which is no superuser, and no role can create objects.`;
}

/** Whether each role exists and is an ordinary one, and those of the services can log in. */
export async function* checkRoles(sql: Sql): Check {
	const names = Object.values(roles);
	const there = await sql<{ name: string; can_login: boolean; is_privileged: boolean }[]>`
		select rolname as name, rolcanlogin as can_login, rolsuper or rolcreaterole or rolbypassrls as is_privileged
		from pg_roles where rolname in ${sql(names)}`;
	for (const name of names) {
		const role = there.find((row) => row.name === name);
		if (role === undefined)
			yield problem(`The role ${name} does not exist.`, 'As a superuser: contacts migrate --roles');
		else if (role.is_privileged)
			yield problem(
				`${name} is no ordinary role.`,
				`As a superuser: alter role ${name} nosuperuser nocreaterole nobypassrls;`,
			);
		// Not every installation uses the others.
		else if (!role.can_login && name.endsWith('_service'))
			yield warning(
				`${name} can't log in.`,
				`As a superuser, if it is used: \\password ${name} and: alter role ${name} login;`,
			);
	}
	return `All ${names.length} roles exist, and the services can log in.`;
}
