import { generateKey, hashKey, maxKeyLength } from '@contacts/common/auth/api-key.js';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { type Command, Option } from 'commander';
import { parseTime, positiveInteger } from '../arguments.js';
import { withDatabase, withTransaction } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { type Context, examples, type OutputOptions } from '../output.js';
import { checkProject, insertKey, type KeyRow, readKeys, revokeKey, rotateKey } from '../projects.sql.js';

interface CreateOptions extends OutputOptions {
	name?: string | null;
	service?: ServiceName | null;
	expires?: string;
	stdin?: boolean;
}

export function addKeyCommands(program: Command, { environment, stdin, output }: Context): void {
	const key = program.command('key').description('API keys: stored only as hashes');

	key
		.command('create')
		.argument('<code>', 'the project')
		.description('create a key, and print it once')
		.addOption(
			new Option('--service <name>', 'only for this service').choices(['personal-contacts', 'company-contacts']),
		)
		.option('--name <text>', 'what it is for, such as "billing job"')
		.option('--expires <when>', 'after a number of days (90), or on a date (2027-01-31, at 00:00 UTC)')
		.option('--stdin', 'import a key that the client already has, from standard input')
		.option('--json', 'print JSON')
		.addHelpText(
			'after',
			examples(
				'contacts key create acme',
				'contacts key create acme --name "billing job" --service company-contacts --expires 365',
				'contacts key create acme --stdin < key.txt',
			),
		)
		.action(async (project: string, { name = null, service = null, expires, ...options }: CreateOptions) => {
			if (name !== null && !/^\P{Cc}{1,100}$/u.test(name))
				throw new UsageError('--name takes 1 to 100 characters, none of them a control character.');
			const expiresAt = expires === undefined ? null : parseExpiry(expires, new Date());
			const secret = options.stdin ? await readKey(stdin) : generateKey();
			const id = await withDatabase(environment, async (sql) => {
				await checkProject(sql, project);
				return insertKey(sql, { project, hash: hashKey(secret), name, service, expiresAt });
			});
			if (id === undefined)
				throw new CommandError('This project has, or had, this very key: contacts key list shows it.');
			const record = { id, project, name, service, expires_at: expiresAt?.toISOString() ?? null };
			if (options.stdin) return output.result(record, `Imported as key ${id} of ${project}.`, options);
			output.result({ ...record, key: secret }, secret, options);
			if (!options.json) output.note(`This is key ${id} of ${project}. It is shown only now: keep it safe.`);
		});

	key
		.command('list')
		.argument('[code]', 'only of this project')
		.description('list keys, never their secrets')
		.option('--json', 'print JSON')
		.addHelpText('after', examples('contacts key list', 'contacts key list acme --json'))
		.action(async (code: string | undefined, options: OutputOptions) => {
			const keys = await withDatabase(environment, async (sql) => {
				if (code !== undefined) await checkProject(sql, code);
				return readKeys(sql, code);
			});
			const columns = ['id', 'project', 'service', 'state', 'expires_at', 'last_used_at', 'name'];
			await output.records([keys], columns, options);
		});

	key
		.command('rotate')
		.argument('<id>', 'from the list')
		.description('create a new key like this one; the old one ends after an overlap')
		.option('--overlap <time>', 'how long both keys are valid: days (7d), hours (12h) or minutes (30m)', '7d')
		.option('--json', 'print JSON')
		.addHelpText('after', examples('contacts key rotate 5', 'contacts key rotate 5 --overlap 12h'))
		.action(async (given: string, { overlap, ...options }: OutputOptions & { overlap: string }) => {
			const old = positiveInteger('The ID of a key', given);
			const seconds = parseOverlap(overlap);
			const secret = generateKey();
			const row = await withTransaction(environment, async (sql) => {
				const rotated = await rotateKey(sql, old, hashKey(secret), seconds);
				return rotated ?? explainEnded(await findKey(sql, old));
			});
			output.result({ ...row, old_id: old, key: secret }, secret, options);
			if (options.json) return;
			const end = row.expires_at === null ? '' : ` It ends at ${row.expires_at}.`;
			output.note(
				`This is key ${row.id} of ${row.project}. It is shown only now: keep it safe.${end} Key ${old} ends at ${row.old_expires_at}.`,
			);
		});

	key
		.command('revoke')
		.argument('<id>', 'from the list')
		.description('revoke a key for good: refused by every running process within a second')
		.option('-y, --yes', 'accepted for scripts: nothing is asked')
		.option('--json', 'print JSON')
		.addHelpText('after', examples('contacts key revoke 5'))
		.action(async (given: string, options: OutputOptions) => {
			const id = positiveInteger('The ID of a key', given);
			await withDatabase(environment, async (sql) => {
				if (!(await revokeKey(sql, id))) explainEnded(await findKey(sql, id));
			});
			output.result({ id, state: 'revoked' }, `Key ${id} is revoked.`, options);
		});
}

async function findKey(sql: Sql, id: number): Promise<KeyRow> {
	const key = (await readKeys(sql)).find((row) => row.id === id);
	if (key === undefined) throw new CommandError(`There is no key ${id}: contacts key list shows all.`);
	return key;
}

function explainEnded({ id, project, name, ...key }: KeyRow): never {
	const end = key.revoked_at === null ? `expired at ${key.expires_at}` : `was revoked at ${key.revoked_at}`;
	throw new CommandError(`Key ${id} of ${project}${name === null ? '' : ` (${name})`} ${end}.`);
}

/** @returns seconds */
function parseOverlap(given: string): number {
	const [, number, unit] = /^([0-9]{1,4})([dhm])$/.exec(given) ?? [];
	if (number === undefined) throw new UsageError('--overlap takes days (7d), hours (12h) or minutes (30m).');
	return Number(number) * { d: 86_400, h: 3600, m: 60 }[unit as 'd' | 'h' | 'm'];
}

/** Days from now, a date (the start of that day in UTC), or an RFC 3339 time. */
export function parseExpiry(given: string, now: Date): Date {
	const isDays = /^[1-9][0-9]{0,4}$/.test(given);
	const time = isDays ? now.getTime() + Number(given) * 86_400_000 : parseTime(given);
	if (!time) throw new UsageError('--expires takes a number of days or a date like 2027-01-31.');
	if (new Date(time) <= now) throw new UsageError('--expires must be in the future.');
	return new Date(time);
}

/** A key from standard input: one line of printable characters. Of more than a key may have little is read. */
async function readKey(stdin: AsyncIterable<Buffer>): Promise<string> {
	const chunks: Buffer[] = [];
	let bytes = 0;
	for await (const chunk of stdin) {
		chunks.push(chunk);
		bytes += chunk.length;
		// Four bytes a character, a byte order mark and the end of the line.
		if (bytes > 4 * maxKeyLength + 5) break;
	}
	// Bytes that are not UTF-8 become U+FFFD.
	const key = new TextDecoder().decode(Buffer.concat(chunks)).replace(/\r?\n$/, '');
	if (key === '' || key.length > maxKeyLength || /[\s\p{Cc}\uFFFD]/u.test(key))
		throw new UsageError(
			`--stdin takes one line with the key: UTF-8, at most ${maxKeyLength} characters, no white space.`,
		);
	return key;
}
