import type { Sql } from '@contacts/common/database/client.js';
import type { Command } from '../command.js';
import { type ConfirmOptions, confirm, yesOption } from '../confirm.js';
import { withDatabase, withTransaction } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { isId, parseChatId } from '../numbers.js';
import { type OutputOptions, printJson, printNote, printResult } from '../output.js';
import {
	countUnused,
	eraseCompanyContacts,
	erasePerson,
	type PersonQuery,
	prunePersons,
	readPerson,
	type StoredPerson,
} from '../persons.sql.js';
import { recordOperation } from '../projects.sql.js';

interface PersonOptions extends OutputOptions {
	chat?: string;
	phone?: string;
	bitrix?: string;
}

export function addPersonCommands(program: Command, environment: NodeJS.ProcessEnv): void {
	const person = program.command('person').description('what is stored about one person; connect as contacts_privacy');

	const withQuery = (name: string, description: string, ...lines: string[]) =>
		person
			.command(name)
			.description(description)
			.option('--chat <id>', 'the user of this chat with the bot')
			.option('--phone <number>', 'company contacts with this number, which begins with a plus')
			.option('--bitrix <id>', 'the company contact with this ID in the CRM')
			.examples(...lines);

	withQuery(
		'export',
		'print everything that is stored about a person, as JSON',
		'contacts person export --phone +12025550103 > person.json',
	).action(async (options: PersonOptions) => {
		const query = await queryOf(options);
		const stored = await withStored(environment, query, async (sql, person) => {
			const rows = Object.entries(person).map(([table, found]) => [table, found.length]);
			await recordOperation(sql, 'person exported', { by: query.by, ...Object.fromEntries(rows) });
		});
		printJson(stored, { indented: true });
	});

	withQuery(
		'erase',
		'delete the personal contact and the subscription of a chat, or company contacts where no CRM is mirrored',
		'contacts person erase --chat 5550001',
	)
		.option(...yesOption)
		.option('--json', 'print the result as JSON')
		.action(async (options: PersonOptions & ConfirmOptions) => {
			const query = await queryOf(options);
			const stored = await withStored(environment, query);
			if (query.by === 'chat') await eraseChat(environment, query.chatId, options);
			else
				await eraseContacts(
					environment,
					stored.company_contacts.map((row) => row.bitrix_id),
					options,
				);
		});

	person
		.command('prune')
		.description(
			'delete personal contacts that nobody has written for some time, and subscriptions that ended before then',
		)
		.requiredOption('--older-than <months>', 'for this many months; contacts of subscribed chats are kept')
		.option('-y, --yes', 'delete; without it, only count what would be deleted')
		.option('--json', 'print the result as JSON')
		.examples('contacts person prune --older-than 24', 'contacts person prune --older-than 24 --yes')
		.action(async ({ olderThan, yes = false, ...options }: OutputOptions & { olderThan: string; yes?: boolean }) => {
			if (!/^[1-9][0-9]{0,3}$/.test(olderThan))
				throw new UsageError('--older-than takes a number of months, from 1 to 9999.');
			const months = Number(olderThan);
			const counts = await withDatabase(environment, (sql) => (yes ? prunePersons : countUnused)(sql, months)).catch(
				explain,
			);
			const verb = yes ? 'Deleted' : 'To delete';
			printResult(
				{ ...counts, deleted: yes },
				`${verb}: ${counts.personal_contacts} personal contacts, ${counts.direct_subscriptions} ended subscriptions.${yes ? '' : ' Say --yes to do it.'}`,
				options,
			);
		});
}

async function eraseChat(
	environment: NodeJS.ProcessEnv,
	chatId: number,
	options: OutputOptions & ConfirmOptions,
): Promise<void> {
	await confirm(`What is stored about chat ${chatId} will be deleted for good.`, options);
	const deleted = await withTransaction(environment, async (sql) => {
		const counts = await erasePerson(sql, chatId);
		// Somebody may have erased it since the question was asked.
		if (Object.values(counts).every((count) => count === 0))
			throw new CommandError(`Nothing was deleted: nothing is stored about chat ${chatId} any more.`);
		await recordOperation(sql, 'person erased', counts);
		return counts;
	});
	const { personal_contacts: contacts, direct_subscriptions: subscriptions } = deleted;
	printResult(deleted, `Deleted: ${contacts} personal contact, ${subscriptions} subscription.`, options);
	if (!options.json)
		printNote(
			'Backups keep them until they are deleted, and the bot backend may save the chat again: docs/data-protection.md.',
		);
}

async function eraseContacts(
	environment: NodeJS.ProcessEnv,
	bitrixIds: readonly unknown[],
	options: OutputOptions & ConfirmOptions,
): Promise<void> {
	const names = bitrixIds.join(', ');
	const erase = async (sql: Sql, ids: readonly unknown[]): Promise<number> => {
		const deleted = await eraseCompanyContacts(sql, ids);
		if (deleted !== null) return deleted;
		throw new CommandError(
			`Erase this person in the CRM: delete contact ${names} in Bitrix24. ` +
				'The next full pass deletes it here (contacts sync --once --full), and partners learn of it from the change feed.',
		);
	};
	await withDatabase(environment, (sql) => erase(sql, []));
	await confirm(`Company contact ${names} will be deleted for good.`, options);
	// A synchroniser may have started, or somebody may have deleted the contact, since the question was asked.
	const deleted = await withTransaction(environment, async (sql) => {
		const counts = { company_contacts: await erase(sql, bitrixIds) };
		if (counts.company_contacts === 0)
			throw new CommandError(`Nothing was deleted: company contact ${names} is no longer stored.`);
		await recordOperation(sql, 'person erased', counts);
		return counts;
	});
	printResult(deleted, `Deleted for good: company contact ${names}.`, options);
	if (!options.json)
		printNote(
			'Partners learn of it from the change feed. Backups keep it, and an import of a file that has it saves it again: docs/data-protection.md.',
		);
}

/**
 * Reads what is stored about a person.
 *
 * @param then what to do on the same connection, also when nothing is stored
 * @throws CommandError when nothing is stored
 */
async function withStored(
	environment: NodeJS.ProcessEnv,
	query: PersonQuery,
	then: (sql: Sql, person: StoredPerson) => Promise<void> = async () => undefined,
): Promise<StoredPerson> {
	const stored = await withDatabase(environment, async (sql: Sql) => {
		const person = await readPerson(sql, query);
		await then(sql, person);
		return person;
	}).catch(explain);
	if (Object.values(stored).every((rows) => rows.length === 0))
		throw new CommandError('Nothing is stored about this person.');
	return stored;
}

/** Exactly one of the options. */
async function queryOf({ chat, phone, bitrix }: PersonOptions): Promise<PersonQuery> {
	if ([chat, phone, bitrix].filter((given) => given !== undefined).length !== 1)
		throw new UsageError('Say one of --chat, --phone and --bitrix.');
	if (chat !== undefined) {
		const chatId = parseChatId(chat);
		if (chatId === undefined) throw new UsageError('--chat takes an integer other than 0, within ±9007199254740991.');
		return { by: 'chat', chatId };
	}
	if (phone !== undefined) {
		const { toE164 } = await import('@contacts/common/company-contacts/phone.js');
		const number = toE164(phone);
		if (number === null) throw new UsageError('--phone takes a valid number with a leading plus.');
		return { by: 'phone', phone: number };
	}
	if (bitrix === undefined || !isId(bitrix))
		throw new UsageError('--bitrix takes the positive integer that is the ID of a contact.');
	return { by: 'bitrix', id: bitrix };
}

function explain(error: unknown): never {
	if ((error as { code?: string }).code === '42501')
		throw new CommandError('This needs the role contacts_privacy, or the owner: DATABASE_URL names another user.');
	throw error;
}
