import type { Sql } from '@contacts/common/database/client.js';
import { errorCode } from '@contacts/common/database/errors.js';
import type { TestApp } from '@contacts/testing/app.js';
import fc from 'fast-check';
import postgres from 'postgres';
import { expect } from 'vitest';
import { contactJson } from '../../company-contact-columns.js';
import { saveCompanyContacts } from '../../save-company-contacts.sql.js';
import { encodeCursor, lastId } from '../cursor.js';
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
const session = fc.nat({ max: sessions - 1 });
const copy = fc.nat({ max: copies - 1 });
const replica = fc.nat({ max: 1 });
const limit = fc.constantFrom(1, 2, 3, 1000);

/** The steps, in this order. A step that has to wait for a transaction waits, and the rest continue. */
export const histories = fc.array(
	fc.oneof(
		{ weight: 3, arbitrary: fc.record({ kind: fc.constant('begin' as const), session }) },
		{ weight: 8, arbitrary: fc.record({ kind: fc.constant('write' as const), session, statement }) },
		{ weight: 2, arbitrary: fc.record({ kind: fc.constant('savepoint' as const), session }) },
		{ weight: 2, arbitrary: fc.record({ kind: fc.constant('rollback to' as const), session }) },
		{ weight: 4, arbitrary: fc.record({ kind: fc.constant('commit' as const), session }) },
		{ weight: 1, arbitrary: fc.record({ kind: fc.constant('rollback' as const), session }) },
		{
			weight: 2,
			arbitrary: fc.record({ kind: fc.constant('save' as const), ids: fc.uniqueArray(bitrixId), whole: fc.boolean() }),
		},
		{
			weight: 12,
			arbitrary: fc.record({ kind: fc.constant('poll' as const), copy, replica, limit, crashes: fc.boolean() }),
		},
		{ weight: 3, arbitrary: fc.record({ kind: fc.constant('compare' as const), copy, replica, limit }) },
		{
			weight: 1,
			arbitrary: fc.record({
				kind: fc.constantFrom('restore', 'truncate', 'prune', 'move', 'cut'),
				keep: fc.boolean(),
			}),
		},
	),
	{ minLength: 5, maxLength: 40, size: 'max' },
);
type Step = typeof histories extends fc.Arbitrary<(infer Each)[]> ? Each : never;

// unique_violation, in_failed_sql_transaction, invalid_savepoint_specification
const expectedCodes = new Set(['23505', '25P02', '3B001']);

/** A session of somebody with a shell. Its statements run in order, and nobody else waits for them. */
class Session {
	readonly #sql: Sql;
	#last: Promise<unknown> = Promise.resolve();
	inTransaction = false;
	savepoints = 0;
	constructor(url: string) {
		this.#sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => undefined });
	}

	send(text: string): void {
		this.#last = this.#last.then(async () => {
			try {
				await this.#sql.unsafe(text).simple();
			} catch (error) {
				// If two transactions insert the same contact, one fails, and so does the rest of its transaction.
				if (!expectedCodes.has(String(errorCode(error)))) throw error;
			}
		});
		// Whoever awaits it at the end receives the error.
		this.#last.catch(() => undefined);
	}

	end(how: 'commit' | 'rollback'): void {
		if (this.inTransaction) this.send(how);
		this.inTransaction = false;
		this.savepoints = 0;
	}

	idle = () => this.#last;
	close = () => this.#sql.end();
}

/** Runs histories on one database, with two replicas of the service. */
export class HistoryRunner {
	readonly #sessions: Session[];
	readonly #writer: Sql;
	/** Kept through all histories. */
	readonly #oldest = new Copy();
	#saves: Promise<unknown>[] = [];
	constructor(
		readonly sql: Sql,
		url: string,
		readonly apps: readonly TestApp[],
	) {
		this.#sessions = Array.from({ length: sessions }, () => new Session(url));
		this.#writer = postgres(url, { max: 1, fetch_types: false });
	}

	async close(): Promise<void> {
		await Promise.all([...this.#sessions.map((each) => each.close()), this.#writer.end({ timeout: 5 })]);
	}

	async run(steps: readonly Step[]): Promise<void> {
		const copiesOfRun = [...Array.from({ length: copies - 1 }, () => new Copy()), this.#oldest];
		for (const step of steps) await this.#take(step, copiesOfRun);
		await this.#settle();
		for (const [n, each] of copiesOfRun.entries()) await this.#compare(each, n % 2, 2);
	}

	async #take(step: Step, all: Copy[]): Promise<void> {
		if ('session' in step) return this.#write(step, this.#sessions[step.session] as Session);
		switch (step.kind) {
			case 'save': {
				const text = (id: number) => ({ name: `saved ${id % 3}`, ...(step.whole ? { phone: null } : {}) });
				const contacts = step.ids.map((id) => ({ bitrix_id: id, ...text(id) }));
				const saved = saveCompanyContacts(this.#writer, contacts);
				saved.catch(() => undefined);
				this.#saves.push(saved);
				return;
			}
			case 'poll': {
				const reader = all[step.copy] as Copy;
				const stored = { contacts: new Map(reader.contacts), cursor: reader.cursor };
				await reader.poll(this.apps[step.replica] as TestApp, step.limit);
				// The copy had not stored the page.
				if (step.crashes) Object.assign(reader, stored);
				return;
			}
			case 'compare':
				// While somebody writes, the right list is not known.
				if (this.#sessions.some(({ inTransaction }) => inTransaction)) return;
				await this.#settle();
				return this.#compare(all[step.copy] as Copy, step.replica, step.limit);
			default:
				return this.#disturb(step);
		}
	}

	#write(step: Extract<Step, { session: number }>, session: Session): void {
		if (step.kind === 'write') session.send(step.statement);
		else if (step.kind === 'commit' || step.kind === 'rollback') session.end(step.kind);
		else if (step.kind === 'begin') {
			if (!session.inTransaction) session.send('begin');
			session.inTransaction = true;
		} else if (session.inTransaction && step.kind === 'savepoint') {
			session.send('savepoint here');
			session.savepoints++;
		} else if (session.inTransaction && session.savepoints > 0) session.send('rollback to savepoint here');
	}

	async #disturb({ kind, keep }: Extract<Step, { keep: boolean }>): Promise<void> {
		await this.#settle();
		const { sql } = this;
		if (kind === 'truncate') await sql`truncate company_contacts`;
		if (kind === 'move') await sql`update company_contacts_version set history = 'another server'`;
		if (kind === 'cut')
			await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like 'listen%'`;
		if (kind === 'prune') {
			await sql`update company_contacts_changes set deleted_at = now() - interval '32 days' where deleted_at is not null`;
			await sql`select prune_company_contacts_tombstones()`;
		}
		if (kind === 'restore')
			await sql.begin(async (transaction) => {
				await transaction`lock table company_contacts in share row exclusive mode`;
				const rows = await transaction`delete from company_contacts returning id, bitrix_id`;
				for (const { id, bitrix_id } of rows.slice(keep ? 0 : 2))
					await transaction`
						insert into company_contacts (id, bitrix_id, name) overriding system value values (${id}, ${bitrix_id}, 'restored')`;
				await transaction`select begin_company_contacts_epoch()`;
			});
	}

	/** Waits until nobody writes. */
	async #settle(): Promise<void> {
		for (const each of this.#sessions) each.end('commit');
		await Promise.all(this.#sessions.map((each) => each.idle()));
		await Promise.all(this.#saves);
		this.#saves = [];
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
