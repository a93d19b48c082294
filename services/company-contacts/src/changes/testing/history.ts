import { contactJson } from '@contacts/common/contacts/company-contact-columns.sql.js';
import { saveCompanyContacts } from '@contacts/common/contacts/save-company-contacts.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { errorCode } from '@contacts/common/database/errors.js';
import type { TestApp } from '@contacts/testing/app.js';
import fc from 'fast-check';
import postgres from 'postgres';
import { expect } from 'vitest';
import { encodeCursor, lastId } from '../feed-cursor.js';
import { Copy } from './copy.js';

const sessions = 3;
const copies = 3;

const bitrixId = fc.integer({ min: 1, max: 12 });
const name = fc.constantFrom('null', "'a'", "'b'", "'c'");
/** Statements that somebody with a shell could execute. */
const statement = fc.oneof(
	fc.tuple(bitrixId, name).map(([id, text]) => `update company_contacts set name = ${text} where bitrix_id = ${id}`),
	bitrixId.map((id) => `delete from company_contacts where bitrix_id = ${id}`),
	fc.tuple(bitrixId, name).map(
		([id, text]) => `
			insert into company_contacts (bitrix_id, name) select n, ${text} from generate_series(${id}, ${id} + 3) n
			on conflict (bitrix_id) do update set name = excluded.name`,
	),
	bitrixId.map((id) => `update company_contacts set id = default where bitrix_id >= ${id}`),
	bitrixId.map(
		(id) => `
		merge into company_contacts c using generate_series(${id}, ${id} + 2) n on c.bitrix_id = n
		when matched and n = ${id} then delete when matched then update set name = 'm'
		when not matched then insert (bitrix_id) values (n)`,
	),
	fc.constant('update company_contacts set updated_at = now()'),
);
/** One statement of a session. A savepoint comes with the transaction, so there is always one to roll back to. */
const write = fc.oneof(
	{ weight: 8, arbitrary: statement },
	{ weight: 3, arbitrary: fc.constant('begin; savepoint here') },
	{ weight: 2, arbitrary: fc.constant('savepoint here') },
	{ weight: 2, arbitrary: fc.constant('rollback to savepoint here') },
	{ weight: 4, arbitrary: fc.constant('commit') },
	{ weight: 1, arbitrary: fc.constant('rollback') },
);
/** Statements that run while nobody else writes. */
const disturbance = fc.constantFrom(
	'truncate company_contacts',
	"update company_contacts_version set history = 'another server'",
	"select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like '%poll'",
	`update company_contacts_changes set deleted_at = now() - interval '63 days' where deleted_at is not null;
	select prune_company_contacts_tombstones()`,
	// A restore, of everything or of less than there is.
	...[0, 2].map(
		(missing) => `
		lock table company_contacts in share row exclusive mode;
		create temporary table restored on commit drop as select id, bitrix_id from company_contacts order by id offset ${missing};
		delete from company_contacts;
		insert into company_contacts (id, bitrix_id, name) overriding system value select id, bitrix_id, 'restored' from restored;
		select begin_company_contacts_epoch()`,
	),
);
const poll = {
	copy: fc.nat({ max: copies - 1 }),
	replica: fc.nat({ max: 1 }),
	limit: fc.constantFrom(1, 2, 3, 1000),
};

/** What happens, in this order. What has to wait for a transaction waits, and the rest goes on. */
export const histories = fc.array(
	fc.oneof(
		{ weight: 20, arbitrary: fc.record({ session: fc.nat({ max: sessions - 1 }), write }) },
		{ weight: 2, arbitrary: fc.record({ save: fc.uniqueArray(bitrixId), whole: fc.boolean() }) },
		{ weight: 12, arbitrary: fc.record({ ...poll, crashes: fc.boolean() }) },
		{ weight: 3, arbitrary: fc.record(poll) },
		{ weight: 1, arbitrary: fc.record({ disturbance }) },
	),
	{ minLength: 5, maxLength: 40, size: 'max' },
);
type Step = typeof histories extends fc.Arbitrary<(infer Each)[]> ? Each : never;

// unique_violation, no_active_sql_transaction, in_failed_sql_transaction
const expectedCodes = new Set(['23505', '25P01', '25P02']);

/** A connection whose statements run in order. Nobody else waits for them. */
class Writer {
	readonly #sql: Sql;
	#last: Promise<unknown> = Promise.resolve();
	inTransaction = false;
	constructor(url: string) {
		this.#sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => undefined });
	}

	run(work: (sql: Sql) => Promise<unknown>): void {
		this.#last = this.#last.then(() => work(this.#sql));
		// The caller that awaits `idle` receives the error.
		this.#last.catch(() => undefined);
	}

	/** Sends what somebody with a shell writes. */
	send(text: string): void {
		if (text.startsWith('begin')) this.inTransaction = true;
		if (text === 'commit' || text === 'rollback') this.inTransaction = false;
		this.run((sql) =>
			sql
				.unsafe(text)
				.simple()
				.catch((error: unknown) => {
					// If two transactions insert the same contact, one fails, and so does the rest of its transaction.
					if (!expectedCodes.has(String(errorCode(error)))) throw error;
				}),
		);
	}

	idle = () => this.#last;
	close = () => this.#sql.end({ timeout: 5 });
}

/** Runs histories on one database, with two replicas of the service. */
export class HistoryRunner {
	readonly #sessions: Writer[];
	readonly #synchroniser: Writer;
	/** Kept through all histories. */
	readonly #oldest = new Copy();
	constructor(
		readonly sql: Sql,
		url: string,
		readonly apps: readonly TestApp[],
	) {
		this.#sessions = Array.from({ length: sessions }, () => new Writer(url));
		this.#synchroniser = new Writer(url);
	}

	get #writers() {
		return [...this.#sessions, this.#synchroniser];
	}

	async close(): Promise<void> {
		await Promise.all(this.#writers.map((each) => each.close()));
	}

	async run(steps: readonly Step[]): Promise<void> {
		const copiesOfRun = [...Array.from({ length: copies - 1 }, () => new Copy()), this.#oldest];
		for (const step of steps) await this.#take(step, copiesOfRun);
		await this.#settle();
		for (const [n, each] of copiesOfRun.entries()) await this.#compare(each, n % 2, 2);
	}

	async #take(step: Step, all: Copy[]): Promise<void> {
		if ('write' in step) this.#sessions[step.session]?.send(step.write);
		else if ('save' in step) {
			const phone = step.whole ? { phone: null } : {};
			const contacts = step.save.map((id) => ({ bitrix_id: id, name: `saved ${id % 3}`, ...phone }));
			this.#synchroniser.run((sql) => saveCompanyContacts(sql, contacts));
		} else if ('disturbance' in step) {
			await this.#settle();
			await this.sql.unsafe(step.disturbance).simple();
		} else if ('crashes' in step) {
			const reader = all[step.copy] as Copy;
			const stored = { contacts: new Map(reader.contacts), cursor: reader.cursor };
			await reader.poll(this.apps[step.replica] as TestApp, step.limit);
			// The copy had not stored the page.
			if (step.crashes) Object.assign(reader, stored);
		} else if (this.#sessions.every(({ inTransaction }) => !inTransaction)) {
			// While somebody writes, the right list is not known.
			await this.#settle();
			await this.#compare(all[step.copy] as Copy, step.replica, step.limit);
		}
	}

	/** Waits until nobody writes. */
	async #settle(): Promise<void> {
		for (const each of this.#sessions) each.send('commit');
		await Promise.all(this.#writers.map((each) => each.idle()));
	}

	/** Polls to the end. Then the copy must equal the list. */
	async #compare(copy: Copy, replica: number, limit: number): Promise<void> {
		const app = this.apps[replica] as TestApp;
		const [state] = await this.sql<[{ epoch: string; version: number; list: string }]>`
			select epoch, version::float8 as version, (
				select format('{"count":%s,"data":[%s]}', count(*), coalesce(string_agg(${this.sql.unsafe(contactJson)}, ',' order by id), ''))
				from company_contacts
			) as list
			from company_contacts_version`;
		const { epoch, version, list } = state;
		// A cursor newer than what a process knows makes it query, so there is no need to wait for a notification.
		const newest = encodeCursor({ epoch, version, id: lastId, began: 0, head: version });
		await app.fetch(`/api/company_contacts.changes?project=partner&api_key=partner-key&cursor=${newest}`);
		await copy.follow(app, limit);
		expect(copy.list).toBe(list);
	}
}
