import { database as db, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import type { PendingStatement, Sql } from '../database/client.js';
import { type Database, openDatabase } from '../database/database.js';
import { DatabaseError } from '../database/errors.js';
import { createLogger } from './logger.js';

let database: Database;

test.beforeAll(async () => {
	database = openDatabase({ url: db.url, applicationName: 'log', poolSize: 1, clock: () => performance.now() });
	await db.sql`insert into projects (code) values ('first')`;
});
afterAll(() => database?.close());

interface Logged {
	type: string;
	message?: string;
	stack?: string;
	cause?: Logged;
	[field: string]: unknown;
}

/** The single line that is logged for this value. */
function logged(err: unknown): { text: string; err: Logged } {
	const lines: string[] = [];
	const logger = createLogger({ name: 'test', level: 'info', destination: { write: (line) => void lines.push(line) } });
	logger.error({ err }, 'failed');
	expect(lines).toHaveLength(1);
	return { text: String(lines[0]), err: JSON.parse(String(lines[0])).err };
}

/** The error of PostgreSQL for this statement. */
const failureOf = (statement: (sql: Sql) => PendingStatement<Record<string, unknown>[]>) =>
	database.query(statement).then(
		() => expect.unreachable('it succeeded'),
		(error: DatabaseError) => error.cause as Error & { code: string; detail?: string },
	);

const violateConstraint = () =>
	failureOf(
		(sql) => sql`
			insert into personal_contacts (chat_id, name, birth_date, project_id)
			values (0, 'Canary Name', '1911-11-11'::text::date, 1)`,
	);
const canary = /canary|1911-11-11/i;

describe('an error of PostgreSQL is logged without values of rows or parameters', () => {
	test('a violated constraint', async () => {
		const failure = await violateConstraint();
		expect(failure.detail).toMatch(canary);
		const { text, err } = logged(failure);
		expect(text).not.toMatch(canary);
		expect(err).toMatchObject({
			type: 'PostgresError',
			code: '23514',
			severity: 'ERROR',
			table_name: 'personal_contacts',
			constraint_name: 'personal_contacts_chat_id_check',
			message: expect.stringMatching(/constraint/),
		});
		expect(Object.keys(err)).not.toContain('detail');
	});

	test('a data exception, which quotes the value in its message, also one that looks like a line of a stack', async () => {
		const failure = await failureOf((sql) => sql`select ${'x\n    at canary (file.js:1:1)'}::text::int`);
		expect(failure.message).toMatch(canary);
		const { text, err } = logged(failure);
		expect(text).not.toMatch(canary);
		expect(err).toMatchObject({ type: 'PostgresError', code: '22P02' });
		expect(err.stack).toMatch(/^\s+at .*connection\.js/);
	});
});

describe('an error', () => {
	test('is logged with its type, message and place in the code', () => {
		const { err } = logged(new TypeError('what went wrong'));
		expect(err).toMatchObject({ type: 'TypeError', message: 'what went wrong' });
		expect(err.stack).toMatch(/^ {4}at .*logger\.test\.ts/);
		expect(err.stack).not.toContain('what went wrong');
	});

	test('keeps its chain of causes, and each cause is redacted as well', async () => {
		const failure = await violateConstraint();
		const { text, err } = logged(new Error('outermost', { cause: new DatabaseError(failure) }));
		expect([err.type, err.cause?.type, err.cause?.cause?.type]).toEqual(['Error', 'DatabaseError', 'PostgresError']);
		expect(err.cause?.message).toBe('the database failed');
		expect(err.cause?.cause?.code).toBe('23514');
		expect(text).not.toMatch(canary);
	});

	test('of the network keeps only its code and system call', () => {
		const error = Object.assign(new Error('connect ECONNREFUSED'), {
			code: 'ECONNREFUSED',
			syscall: 'connect',
			address: 'canary',
			query: 'canary',
			parameters: ['canary'],
		});
		const { text, err } = logged(error);
		expect(err).toMatchObject({ code: 'ECONNREFUSED', syscall: 'connect' });
		expect(text).not.toMatch(canary);
	});

	test.each([
		['a text', 'canary'],
		['an object', { name: 'canary' }],
		['nothing', null],
	])('that is none, but %s, is logged as its type alone', (_, thrown) => {
		expect(logged(thrown).err).toEqual({ type: typeof thrown });
	});
});

test('request and response objects are never logged, because they contain the URL and so the key', () => {
	const lines: string[] = [];
	const logger = createLogger({ name: 'test', level: 'info', destination: { write: (line) => void lines.push(line) } });
	logger.info({ req: { url: '/?api_key=canary' }, res: { headers: ['canary'] } }, 'text');
	expect(lines.join('')).not.toContain('canary');
	expect(JSON.parse(lines.join(''))).toMatchObject({ name: 'test', level: 'info', msg: 'text' });
});
