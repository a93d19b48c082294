import type { Sql } from '@contacts/common/database/client.js';
import { contactColumnNames, contactJson } from '@contacts/company-contacts/company-contact-columns.sql.js';
import type { Command } from '../command.js';
import { withDatabase } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { type OutputOptions, printNote, printRecords, printResult } from '../output.js';
import { readPages } from '../pages.js';

interface ListOptions extends OutputOptions {
	company?: string;
	phone?: string;
	limit: string;
}

const columns = ['id', 'bitrix_id', ...contactColumnNames];

export function addContactCommands(program: Command, environment: NodeJS.ProcessEnv): void {
	const contact = program.command('contact').description('company contacts, as in the list');

	contact
		.command('list')
		.description('list company contacts by id')
		.option('--company <id>', 'only of this company')
		.option('--phone <number>', 'only with this number, which begins with a plus')
		.option('--limit <number>', 'maximum number of contacts', '1000')
		.option('--json', 'print the records as JSON')
		.examples('contacts contact list --company 11', 'contacts contact list --phone +12025550103 --json')
		.action(async ({ company, phone, limit, ...options }: ListOptions) => {
			if (!/^[1-9][0-9]{0,6}$/.test(limit)) throw new UsageError('--limit takes a positive integer up to 9999999.');
			if (company !== undefined) checkId('--company', company);
			const { toE164 } = await import('@contacts/company-contacts/phone.js');
			const number = phone === undefined ? undefined : toE164(phone);
			if (number === null) throw new UsageError('--phone takes a valid number with a leading plus.');
			const max = Number(limit);
			await withDatabase(environment, async (sql) => {
				const condition: ReturnType<Sql> = sql`${company === undefined ? sql`true` : sql`company_ids @> array[${company}::bigint]`}
					and ${number === undefined ? sql`true` : sql`phone = ${number}`}`;
				let read = 0;
				async function* shown() {
					for await (const page of readContacts(sql, condition, max + 1)) {
						yield page.slice(0, max - read);
						read += page.length;
					}
				}
				await printRecords(shown(), columns, options);
				if (read > max) printNote(`There are more than ${limit}: see --limit.`);
			});
		});

	contact
		.command('get')
		.argument('<bitrix_id>', 'ID of the contact in the CRM')
		.description('show one company contact')
		.option('--json', 'print the record as JSON')
		.examples('contacts contact get 1007 --json')
		.action(async (bitrixId: string, options: OutputOptions) => {
			checkId('bitrix_id', bitrixId);
			const [record] = await withDatabase(environment, (sql) =>
				selectContacts(sql, sql`bitrix_id = ${bitrixId}::bigint`, 1),
			);
			if (record === undefined) throw new CommandError(`There is no contact with the bitrix_id ${bitrixId}.`);
			if (options.json) printResult(record, '', options);
			else await printRecords([record], columns, options);
		});
}

interface ContactRow {
	id: number;
}

/** Contacts by id, page by page. */
const readContacts = (sql: Sql, condition: ReturnType<Sql>, limit: number) =>
	readPages<ContactRow>(limit, (last, size) =>
		selectContacts(
			sql,
			sql`${condition} and ${last === undefined ? sql`true` : sql`id > ${last.id}::float8::bigint`}`,
			size,
		),
	);

async function selectContacts(sql: Sql, condition: ReturnType<Sql>, limit: number): Promise<ContactRow[]> {
	const rows = await sql<{ json: string }[]>`
		select ${sql.unsafe(contactJson)} as json from company_contacts where ${condition} order by id limit ${limit}`;
	return rows.map(({ json }) => JSON.parse(json));
}

function checkId(name: string, given: string): void {
	if (!/^[1-9][0-9]{0,18}$/.test(given) || BigInt(given) > 2n ** 63n - 1n)
		throw new UsageError(`${name} is a positive integer up to 9223372036854775807.`);
}
