import { generateKey, hashKey, maxKeyLength } from '@contacts/common/auth/api-key.js';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { insertKey, revokeKey } from '@contacts/common/auth/projects.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { type Command, Option } from 'commander';
import { parseTime, positiveInteger } from '../arguments.js';
import { withDatabase } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { changeKeys, noWait, untilInForce, type WaitOptions } from '../in-force.js';
import { readClock } from '../sql/clock.sql.js';
import { checkProject, readKeys, rotateKey } from '../sql/keys.sql.js';
import { type Context, examples, type OutputOptions, type Streams } from '../terminal/output.js';

/** Seconds. */
const day = 86_400;

/** When a key ends: seconds from now, or a time in RFC 3339. */
type Expiry = { seconds: number } | { time: string };

/** The search space of a shorter key is small, even if it is random. */
const minKeyLength = 16;

const guessable = `A key of fewer than ${minKeyLength} characters can be guessed.`;

const keyId = positiveInteger('The ID of a key');

interface CreateOptions extends OutputOptions, WaitOptions {
	name?: string | null;
	service?: ServiceName | null;
	expires?: Expiry;
	stdin?: boolean;
	yes?: boolean;
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
		.option('--expires <when>', 'after a number of days (90), or on a date (2027-01-31, at 00:00 UTC)', expiryOf)
		.option('--stdin', 'import a key that the client already has, from standard input')
		.option('-y, --yes', `import a key of fewer than ${minKeyLength} characters without asking`)
		.option(...noWait)
		.option('--json', 'print JSON')
		.addHelpText(
			'after',
			examples(
				'contacts key create acme --name "billing job" --expires 365',
				'contacts key create acme --stdin < key.txt',
			),
		)
		.action(async (project: string, { name = null, service = null, expires, ...options }: CreateOptions) => {
			if (name !== null && !/^\P{Cc}{1,100}$/u.test(name))
				throw new UsageError('--name takes 1 to 100 characters, none of them a control character.');
			const secret = options.stdin ? await readKey(stdin) : generateKey();
			if (secret.length < minKeyLength) {
				if (options.yes) output.note(guessable);
				else await output.confirm(guessable);
			}
			const { id, expiresAt } = await changeKeys(environment, async (sql) => {
				await checkProject(sql, project);
				const expiresAt = expires === undefined ? null : await endOf(sql, expires);
				return { id: await insertKey(sql, { project, hash: hashKey(secret), name, service, expiresAt }), expiresAt };
			});
			if (id === undefined)
				throw new CommandError('This project has, or had, this very key: contacts key list shows it.');
			const record = { id, project, name, service, expires_at: expiresAt?.toISOString() ?? null };
			if (options.stdin) {
				output.result(record, `Imported as key ${id} of ${project}.`, options);
			} else {
				output.result({ ...record, key: secret }, secret, options);
				const end = expiresAt === null ? '' : ` It ends at ${expiresAt.toISOString()}.`;
				if (!options.json) output.note(`This is key ${id} of ${project}. It is shown only now: keep it safe.${end}`);
			}
			await untilInForce(output, options);
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
			output.records(keys, ['id', 'project', 'service', 'state', 'expires_at', 'last_used_at', 'name'], options);
		});

	key
		.command('rotate')
		.argument('<id>', 'from the list', keyId)
		.description('create a new key like this one; the old one ends after an overlap')
		.addOption(
			new Option('--overlap <time>', 'how long both keys are valid: days (7d), hours (12h) or minutes (30m)')
				.argParser(overlapOf)
				.default(7 * day, '7d'),
		)
		.option(...noWait)
		.option('--json', 'print JSON')
		.addHelpText('after', examples('contacts key rotate 5 --overlap 12h'))
		.action(async (old: number, { overlap, ...options }: OutputOptions & WaitOptions & { overlap: number }) => {
			const secret = generateKey();
			const rotated = await changeKeys(environment, (sql) => rotateKey(sql, old, hashKey(secret), overlap));
			if (rotated === undefined) throw notLive(old);
			const { was_ending, ...row } = rotated;
			output.result({ ...row, old_id: old, key: secret }, secret, options);
			if (was_ending)
				output.note(
					`Key ${old} was rotated before, or its end was set by hand. Look for another successor: contacts key list ${row.project}`,
				);
			const end = row.expires_at === null ? '' : ` It ends at ${row.expires_at}.`;
			if (!options.json)
				output.note(
					`This is key ${row.id} of ${row.project}. It is shown only now: keep it safe.${end} Key ${old} ends at ${row.old_expires_at}.`,
				);
			await untilInForce(output, options);
		});

	key
		.command('revoke')
		.argument('<id>', 'from the list', keyId)
		.description('revoke a key for good: when the command ends, every process refuses it')
		.option(...noWait)
		.addHelpText('after', examples('contacts key revoke 5'))
		.action(async (id: number, options: WaitOptions) => {
			if (!(await changeKeys(environment, (sql) => revokeKey(sql, id)))) throw notLive(id);
			output.print(`Key ${id} is revoked.`);
			await untilInForce(output, options);
		});
}

const notLive = (id: number) =>
	new CommandError(`There is no key ${id} that is live: contacts key list shows the state of all.`);

/** @returns seconds */
function overlapOf(given: string): number {
	const [, number, unit] = /^([0-9]{1,4})([dhm])$/.exec(given) ?? [];
	if (number === undefined) throw new UsageError('--overlap takes days (7d), hours (12h) or minutes (30m).');
	return Number(number) * { d: day, h: 3600, m: 60 }[unit as 'd' | 'h' | 'm'];
}

/** Days from now, a date (the start of that day in UTC), or an RFC 3339 time. */
function expiryOf(given: string): Expiry {
	if (/^[1-9][0-9]{0,4}$/.test(given)) return { seconds: Number(given) * day };
	const time = parseTime(given);
	if (!time) throw new UsageError('--expires takes a number of days or a date like 2027-01-31.');
	return { time };
}

/** The end of a key by the database's clock. */
async function endOf(sql: Sql, expiry: Expiry): Promise<Date> {
	const now = Date.parse(await readClock(sql));
	const end = 'time' in expiry ? Date.parse(expiry.time) : now + expiry.seconds * 1000;
	if (end <= now) throw new UsageError('--expires must be in the future.');
	return new Date(end);
}

/** A key from standard input: one line of printable characters. Little is read of what is too long to be a key. */
async function readKey(stdin: Streams['stdin']): Promise<string> {
	// Bytes that are not UTF-8 become U+FFFD.
	const decoder = new TextDecoder();
	let given = '';
	// What follows the line at a terminal is the reply to a question.
	for await (const chunk of stdin.iterator({ destroyOnReturn: !stdin.isTTY })) {
		given += decoder.decode(chunk, { stream: true });
		if (given.length > maxKeyLength + '\r\n'.length || (stdin.isTTY && given.endsWith('\n'))) break;
	}
	const key = (given + decoder.decode()).replace(/\r?\n$/, '');
	if (key === '' || key.length > maxKeyLength || /[\p{White_Space}\uFFFD]/u.test(key))
		throw new UsageError(
			`--stdin takes one line with the key: UTF-8, at most ${maxKeyLength} characters, no white space.`,
		);
	const [invisible] = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/u.exec(key) ?? [];
	if (invisible !== undefined)
		throw new UsageError(
			`The key has a character that does not print (U+${invisible.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}): remove it.`,
		);
	if (/^["'`‚„\p{Pi}\p{Pf}].*["'`\p{Pi}\p{Pf}]$/u.test(key))
		throw new UsageError('The key has quotes around it: remove them.');
	return key;
}
