import type { Sql } from '@contacts/common/database/client.js';
import { readRights } from '@contacts/common/database/rights.sql.js';
import { roles } from '@contacts/common/database/roles.js';
import { type Finding, findingsOf } from './check.js';
import { type RoleRow, readRoles } from './doctor.sql.js';

const read = ['select'];
const write = ['insert', 'select', 'update'];
const all = ['delete', 'insert', 'select', 'update'];

/** The rights of the synchroniser. The operator has them too, for work by hand. */
const sync: Rights = {
	company_contacts: all,
	crm_event_inbox: all,
	crm_sync_requests: ['delete', 'select', 'update'],
	crm_sync_runs: all,
	crm_sync_staging: all,
	crm_sync_state: ['select', 'update'],
	'function prune_company_contacts_tombstones': ['execute'],
};

const authentication = { projects: read, api_keys: read, key_ring_version: read, api_key_uses: write };

/** The exact rights of each role on each table and function, once everything is migrated. */
const expected: Record<string, Rights> = {
	[roles['personal-contacts']]: {
		...authentication,
		personal_contacts: write,
		direct_subscriptions: read,
		'function apply_direct_subscription_report': ['execute'],
	},
	[roles['company-contacts']]: {
		...authentication,
		company_contacts: read,
		company_contacts_changes: read,
		company_contacts_lists: read,
		company_contacts_version: read,
		crm_sync_state: read,
	},
	[roles['company-contacts-sync']]: sync,
	[roles.operator]: {
		...sync,
		crm_sync_requests: all,
		projects: ['insert', 'select', 'update (disabled_at)'],
		api_keys: ['insert', 'select', 'update (expires_at)', 'update (revoked_at)'],
		direct_subscriptions: write,
		api_key_uses: read,
		audit_log: read,
		key_ring_version: read,
		schema_migrations: read,
		'function override_direct_subscription_reports': ['execute'],
		'function record_operation': ['execute'],
	},
	[roles.privacy]: {
		company_contacts: read,
		direct_subscription_reports: ['delete', 'select'],
		direct_subscriptions: ['delete', 'select'],
		personal_contacts: ['delete', 'select'],
		projects: ['select (id)', 'select (code)'],
		'function erase_company_contacts': ['execute'],
		'function record_operation': ['execute'],
	},
};

/** Whether each role exists, can log in, and has exactly the rights that it needs. The schema must be up to date. */
export async function checkRoles(sql: Sql): Promise<Finding[]> {
	const { found, ...add } = findingsOf('roles');
	const names = Object.values(roles);
	const there = await readRoles(sql, names);
	const rights = await readRights(sql, names);
	for (const name of names) {
		const actual = Object.fromEntries(rights.filter((row) => row.role === name).map((row) => [row.table, row.rights]));
		const role = there.find((row) => row.name === name);
		judgeRole(name, role, actual, expected[name] ?? {}, add);
	}
	if (found.length === 0) add.ok(`All ${names.length} roles can log in and have their rights, and no others.`);
	return found;
}

/** The rights of a role, by table. */
type Rights = Record<string, string[]>;

/** @param role undefined: the role does not exist */
export function judgeRole(
	name: string,
	role: RoleRow | undefined,
	actual: Rights,
	wanted: Rights,
	{ problem, warning }: Pick<ReturnType<typeof findingsOf>, 'problem' | 'warning'>,
): void {
	if (role === undefined) {
		problem(
			`The role ${name} does not exist.`,
			`As the owner: create role ${name} nologin; then "contacts doctor" names what to grant it.`,
		);
		return;
	}
	if (role.is_privileged) {
		problem(`${name} is no ordinary role.`, `alter role ${name} nosuperuser nocreaterole nobypassrls;`);
		return;
	}
	if (!role.can_login || role.has_password === false) {
		warning(
			`${name} can't log in: it has no password.`,
			'Where it is used, as the owner: contacts migrate with the variable of its password (contacts migrate --help).',
		);
	}
	for (const table of new Set([...Object.keys(actual), ...Object.keys(wanted)])) {
		const [has, needs] = [actual[table] ?? [], wanted[table] ?? []];
		const missing = needs.filter((right) => !has.includes(right) && !has.includes(wholeTable(right)));
		const excess = has.filter((right) => !needs.includes(right)).sort();
		const grant = (rights: string[]) => `grant ${rights.join(', ')} on ${table} to ${name};`;
		if (missing.length > 0)
			problem(`${name} may not ${missing.join(', ')} ${table}.`, `As the owner: ${grant(missing)}`);
		if (excess.length > 0) {
			// Revoking a right on a table also revokes it on each column.
			const lost = needs.filter((right) => excess.includes(wholeTable(right)) && right !== wholeTable(right));
			const advice = `revoke ${excess.join(', ')} on ${table} from ${name};`;
			problem(
				`${name} may ${excess.join(', ')} ${table}.`,
				`As the owner: ${[advice, ...(lost.length > 0 ? [grant(lost)] : [])].join(' ')}`,
			);
		}
	}
}

/** The right on the whole table that includes a right on a column. */
const wholeTable = (right: string) => right.replace(/ \(.*$/, '');
