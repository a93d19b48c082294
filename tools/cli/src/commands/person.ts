import { toE164 } from '@contacts/common/contacts/phone.js';
import type { Sql } from '@contacts/common/database/client.js';
import type { Command } from 'commander';
import { chatId, positiveInteger } from '../arguments.js';
import { withDatabase, withTransaction, withTransactions } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { recordOperation } from '../sql/audit.sql.js';
import {
	countUnused,
	type Deleted,
	eraseChat,
	eraseCompanyContacts,
	type PersonQuery,
	prunePersons,
	readPerson,
} from '../sql/persons.sql.js';
import { type Context, examples } from '../terminal/output.js';

export function addPersonCommands(program: Command, context: Context): void {
	const { environment, output } = context;
	const person = program.command('person').description('what is stored about one person; connect as contacts_privacy');
	const withQuery = (name: string) =>
		person
			.command(name)
			.option('--chat <id>', 'the user of this chat with the bot', chatId)
			.option('--phone <number>', 'company contacts with this number, which begins with a plus', phoneOf)
			.option('--bitrix <id>', 'the company contact with this ID in the CRM', positiveInteger('--bitrix'));

	withQuery('export')
		.description('print everything that is stored about a person, as JSON')
		.addHelpText('after', examples('contacts person export --phone +12025550103 > person.json'))
		.action(async (query: PersonQuery) => {
			const by = identifierOf(query);
			const stored = await withTransaction(environment, async (sql) => {
				const found = await readPerson(sql, query);
				await recordOperation(sql, 'person exported', { by, ...countsOf(found) });
				return found;
			});
			if (Object.values(stored).every((rows) => rows.length === 0)) throw nothingStored();
			output.record(stored);
		});

	withQuery('erase')
		.description(
			'delete the personal contact and the subscription of a chat, or company contacts where no CRM is mirrored, for good',
		)
		.option('-y, --yes', 'do not ask; needed where there is no terminal')
		.addHelpText('after', examples('contacts person erase --chat 5550001'))
		.action(async ({ yes, ...query }: PersonQuery & { yes?: boolean }) => {
			identifierOf(query);
			if (!yes) {
				const { what } = await withDatabase(environment, (sql) => erase(sql, query, { isDryRun: true }));
				await output.confirm(`To delete for good: ${what}.`);
			}
			const deleted = await withTransaction(environment, async (sql) => {
				const erased = await erase(sql, query);
				await recordOperation(sql, 'person erased', { by: identifierOf(query), ...erased.counts });
				return erased;
			});
			output.print(`Deleted for good: ${deleted.what}.`);
			output.note(
				'Backups keep it until they are deleted, and it can be saved again, by the bot backend or by an import: docs/data-protection.md.',
			);
		});

	person
		.command('prune')
		.description(
			'delete personal contacts that nobody has written for some time, and subscriptions that ended before then',
		)
		.requiredOption('--older-than <months>', 'for this many months; contacts of subscribed chats are kept', monthsOf)
		.option('-y, --yes', 'delete; without it, only count what would be deleted')
		.addHelpText('after', examples('contacts person prune --older-than 24 --yes'))
		.action(async ({ olderThan: months, yes = false }: { olderThan: number; yes?: boolean }) => {
			if (yes) output.print(`Deleted: ${describe(await pruneAll(context, months))}.`);
			else {
				const counts = await withDatabase(environment, (sql) => countUnused(sql, months));
				output.print(`To delete: ${describe(counts)}. Say --yes to do it.`);
			}
		});
}

/** The number of rows of each table. */
const countsOf = (rows: object): object =>
	Object.fromEntries(Object.entries(rows).map(([table, { length }]) => [table, length]));

/** Such as `1 personal_contacts, 0 direct_subscriptions`. */
const describe = (counts: object) =>
	Object.entries(counts)
		.map(([table, count]) => `${count} ${table}`)
		.join(', ');

const nothingStored = () => new CommandError('Nothing is stored about this person.');

/** @returns the numbers of rows that are deleted, or would be, and what they are */
async function erase(
	sql: Sql,
	query: PersonQuery,
	{ isDryRun = false } = {},
): Promise<{ counts: object; what: string }> {
	const { company_contacts: contacts, ...ofChat } = await readPerson(sql, query);
	if (query.chat !== undefined) {
		const counts = isDryRun ? countsOf(ofChat) : await eraseChat(sql, query.chat);
		if (Object.values(counts).every((count) => count === 0)) throw nothingStored();
		return { counts, what: describe(counts) };
	}
	const ids = contacts.map((row) => row.bitrix_id);
	if (ids.length === 0) throw nothingStored();
	// Without an ID it only says whether a CRM is mirrored.
	const deleted = await eraseCompanyContacts(sql, isDryRun ? [] : ids);
	if (deleted === null)
		throw new CommandError(
			`Erase this person in the CRM: delete contact ${ids.join(', ')} in Bitrix24, then run: contacts sync --full`,
		);
	return { counts: { company_contacts: deleted }, what: `company contact ${ids.join(', ')}` };
}

/** Deletes in small transactions, so that an upsert never waits long. Each one records what it has deleted. */
async function pruneAll({ environment, output }: Context, months: number): Promise<Deleted> {
	const total = { personal_contacts: 0, direct_subscriptions: 0 };
	const tables = ['personal_contacts', 'direct_subscriptions'] as const;
	/** How far each table has come; null: to its end. */
	const last: { [table in keyof Deleted]?: number | null } = {};
	await withTransactions(environment, async (_, transaction) => {
		while (tables.some((table) => last[table] !== null)) {
			const counts = await transaction(async (sql) => {
				const deleted = { personal_contacts: 0, direct_subscriptions: 0 };
				for (const table of tables) {
					const from = last[table];
					if (from !== null)
						({ deleted: deleted[table], last: last[table] } = await prunePersons(sql, table, months, from));
				}
				if (tables.some((table) => deleted[table] > 0))
					await recordOperation(sql, 'personal contacts pruned', { months, ...deleted });
				return deleted;
			});
			for (const table of tables) total[table] += counts[table];
			output.progress(`deleted: ${describe(total)}`);
		}
	});
	return total;
}

/** The one option that says who. */
function identifierOf(query: PersonQuery): string {
	const [name, ...more] = Object.keys(query);
	if (name === undefined || more.length > 0) throw new UsageError('Say one of --chat, --phone and --bitrix.');
	return name;
}

function phoneOf(given: string): string {
	const phone = toE164(given);
	if (phone === null) throw new UsageError('--phone takes a valid number with a leading plus.');
	return phone;
}

function monthsOf(given: string): number {
	if (!/^[1-9][0-9]{0,3}$/.test(given)) throw new UsageError('--older-than takes a number of months, from 1 to 9999.');
	return Number(given);
}
