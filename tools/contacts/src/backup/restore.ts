import type { Readable } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';
import type { Sql } from '@contacts/common/database/client.js';
import { readDatabaseUrl } from '@contacts/common/database/database-url.js';
import { openSession, type Session } from '@contacts/company-contacts/sync/session.js';
import { isLocked } from '@contacts/company-contacts/sync/session.sql.js';
import { type ConfirmOptions, confirm } from '../confirm.js';
import { actorOf, findDatabaseUrl } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { openFile } from '../import/source-file.js';
import { type OutputOptions, printResult } from '../output.js';
import { streams } from '../streams.js';
import { type BackupReader, readBackup } from './backup-reader.js';
import { type BackupKey, type Header, readBackupKey, summaryOf } from './format.js';
import { type KeptRevocations, keepRevocations, readRevocations } from './revocations.sql.js';
import * as database from './tables.sql.js';
import { asOwner, inTransaction } from './transaction.js';

export interface RestoreOptions extends OutputOptions, ConfirmOptions {
	replace?: boolean;
}

/** `contacts restore` */
export async function restore(environment: NodeJS.ProcessEnv, path: string, options: RestoreOptions): Promise<void> {
	const key = readBackupKey(environment);
	const url = await findDatabaseUrl(environment);
	if (path === '-' && streams().stdin.isTTY) throw new UsageError('Name a file, or pipe a backup into this command.');
	const source = path === '-' ? streams().stdin : (await openFile(path)).chunks;
	const replace = options.replace ?? false;
	if (replace) {
		const { database: name, hostList } = readDatabaseUrl(url);
		await confirm(`Everything in the database ${name} on ${hostList} will be deleted.`, options);
	}
	const { header, kept } = await readInto(url, actorOf(environment), source, replace, key);
	const summary = summaryOf(header);
	const what = `Restored ${summary.rows} rows of ${summary.tables.length} tables, as they were at ${summary.created_at}.`;
	const sentences = [summary.keyed ? `${what} Its keyed hash is right.` : what];
	const { revoked_keys: revoked, earlier_expiries: shortened, disabled_projects: disabled } = kept;
	if (revoked + shortened + disabled > 0) {
		sentences.push(
			`Kept from before the restore: ${revoked} revoked keys, ${shortened} earlier expiries, ${disabled} disabled projects.`,
		);
	}
	printResult({ ...summary, kept }, sentences.join(' '), options);
}

async function readInto(
	url: string,
	actor: string,
	source: Readable,
	replace: boolean,
	key: BackupKey | undefined,
): Promise<{ header: Header; kept: KeptRevocations }> {
	// Held until the end: a synchroniser would continue from the position of the old data.
	const session = await openSession(url);
	if (session === undefined) throw new CommandError('A synchroniser works on this database: stop it first.');
	let kept: KeptRevocations = { revoked_keys: 0, earlier_expiries: 0, disabled_projects: 0 };
	try {
		const header = await readBackup(source, key, (backup) =>
			asOwner(
				inTransaction(
					url,
					'begin',
					async (sql) => {
						kept = await restoreAll(sql, backup, replace);
						await checkLock(session);
					},
					actor,
				),
			),
		);
		return { header, kept };
	} finally {
		await session.close();
	}
}

/** @throws CommandError when the session was lost: a synchroniser may already have read the position of the old data */
async function checkLock(session: Session): Promise<void> {
	try {
		await session.run(isLocked);
	} catch {
		throw new CommandError(
			'The connection that keeps synchronisers from working was lost; nothing was changed. Try again.',
		);
	}
}

/**
 * Restores a backup in the caller's transaction. The services read the old data until the
 * commit, and nobody else can write. Identity sequences never move back.
 *
 * @param replace delete existing data instead of refusing
 * @throws DamagedBackupError, CommandError: the transaction must not be committed
 */
async function restoreAll(sql: Sql, backup: BackupReader, replace: boolean): Promise<KeptRevocations> {
	const { header } = backup;
	checkSchema(header, await database.readSchemaVersion(sql));
	const tables = await database.readTables(sql);
	await database.lockTables(sql, tables);
	const shape = (table: { name: string; columns: string[] }) => ({ name: table.name, columns: table.columns });
	if (!isDeepStrictEqual(header.tables.map(shape), tables.map(shape)))
		throw new CommandError(
			'The tables here have other columns than those of the backup, though the schema is the same.',
		);
	// Values taken from a sequence do not roll back, unless the same transaction restarted the sequence.
	for (const { sequence, nextId } of tables) {
		if (sequence !== null) await database.restartSequence(sql, sequence, nextId ?? 1);
	}
	const revocations = await readRevocations(sql);
	await makeEmpty(sql, tables, replace);

	for (const [index, table] of tables.entries()) {
		const { rows = 0, next_id = null } = header.tables[index] ?? {};
		// The triggers recorded projects and keys as new.
		if (table.name === 'audit_log') await database.deleteRows(sql, table.name);
		try {
			await database.insertRows(sql, table, backup.rows());
		} catch (error) {
			throw await explain(error, backup, table.name);
		}
		if ((await database.countRows(sql, table.name)) !== rows)
			throw new CommandError(`Not every row of ${table.name} was stored.`);
		if (table.sequence !== null)
			await database.restartSequence(sql, table.sequence, Math.max(next_id ?? 1, table.nextId ?? 1));
	}
	await backup.verifyRest();
	// After the audit log was replaced, so that it has them.
	const kept = await keepRevocations(sql, revocations);
	await database.beginEpoch(sql);
	await database.makeFullPassDue(sql);
	const { tables: _, ...summary } = summaryOf(header);
	await database.record(sql, 'database restored', { ...summary, replaced: replace });
	return kept;
}

/**
 * Explains refused rows. In an undamaged file they are valid, and the server's log says why it refused
 * them. The server's message may quote personal data.
 */
async function explain(error: unknown, backup: BackupReader, table: string): Promise<unknown> {
	if (!/^(22|23|54)/.test((error as { code?: string }).code ?? '')) return error;
	await backup.verifyRest();
	return new CommandError(
		`The database does not take the rows of ${table}, though they are those that were written: see its log. Nothing was changed.`,
	);
}

function checkSchema({ schema }: Header, here: number | undefined): void {
	if (here === undefined)
		throw new CommandError(`The database has no tables yet: run "contacts migrate --to ${schema}" first.`);
	if (here < schema) {
		throw new CommandError(
			`The backup has schema ${schema} and the database ${here}: run "contacts migrate" first, of the release that wrote it or a later one.`,
		);
	}
	if (here > schema) {
		throw new CommandError(
			`The backup has schema ${schema} and the database ${here}: take a new database, run "contacts migrate --to ${schema}", restore, then "contacts migrate".`,
		);
	}
}

async function makeEmpty(sql: Sql, tables: readonly database.Table[], replace: boolean): Promise<void> {
	const found: string[] = [];
	for (const { name } of replace ? [] : tables) {
		const rows = name === database.stateTable ? 0 : await database.countRows(sql, name);
		if (rows > 0) found.push(`${name} (${rows})`);
	}
	if (found.length > 0) {
		throw new CommandError(
			`The database is not empty: ${found.join(', ')}. Restore into a new one, or use --replace to delete what is there.`,
		);
	}
	for (const { name } of tables.toReversed()) {
		if (replace || name === database.stateTable) await database.deleteRows(sql, name);
	}
	await database.deleteTransientRows(sql);
}
