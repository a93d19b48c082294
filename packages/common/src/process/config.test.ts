import { expect, test } from 'vitest';
import { ConfigError, readVariables, serviceVariables } from './config.js';

const url = 'postgres://user:canary-password@db.example:5432/contacts';
const schema = serviceVariables(3001);
const read = (environment: NodeJS.ProcessEnv) => readVariables(schema, { DATABASE_URL: url, ...environment });
const linesOf = (environment: NodeJS.ProcessEnv) => {
	try {
		readVariables(schema, environment);
	} catch (error) {
		if (error instanceof ConfigError) return error.lines;
		throw error;
	}
	return [];
};

/** Of each variable values that are right, as they are read, and values that are wrong. */
const table: { name: string; right: Record<string, unknown>; wrong: string[] }[] = [
	{
		name: 'DATABASE_URL',
		right: same(
			'postgres://host/db',
			'postgresql://u:p@[::1]:5432/db?sslmode=require',
			'postgresql://u:p%40%2C%2F@a,[::1]:5433,10.0.0.3/db?sslmode=verify-full&target_session_attrs=primary',
			'postgres://u@a,b/db?target_session_attrs=read-write',
			'postgres://u@%2Fvar%2Frun%2Fpostgresql/db',
		),
		wrong: [
			...['host/db', 'mysql://host/db', 'postgres', '5432', 'postgres://host:port/db', 'postgres://::1/db'],
			...['postgres://a:5432,b:port/db', 'postgres://a,b:65536/db', 'postgres://a,,b/db', 'postgres://u:p%zz@host/db'],
			...[
				'postgres:///db',
				'postgres://u:p@/db',
				'postgres://u@a/db?sslmode=verify_full',
				'postgres://u@a/db?sslmode=',
			],
			'postgres://u:p@ss/w@host/db',
			'postgres://u@a,%2Fvar%2Frun%2Fpostgresql/db',
			...['writable', 'any', 'prefer-standby'].map((target) => `postgres://u@a,b/db?target_session_attrs=${target}`),
		],
	},
	{
		name: 'PORT',
		right: { '0': 0, '65535': 65_535 },
		wrong: ['65536', '-1', '1.5', '1e3', '0x50', '+80', 'http', '٣'],
	},
	{ name: 'LOG_LEVEL', right: same('fatal', 'info', 'silent'), wrong: ['INFO', 'verbose', '30'] },
	{
		name: 'TRUST_PROXY',
		right: {
			'10.0.0.0/8': ['10.0.0.0/8'],
			'::1, fd00::/8': ['::1', 'fd00::/8'],
			'loopback,127.0.0.1': ['loopback', '127.0.0.1'],
		},
		wrong: [
			'true',
			'1',
			'0.0.0.0/0',
			'::/0',
			'10.0.0.0/33',
			'::1/129',
			'10.0.0/8',
			'10.0.0.0/',
			'proxy.example',
			',',
			'*',
		],
	},
	{ name: 'DATABASE_POOL_SIZE', right: { '1': 1, '500': 500 }, wrong: ['0', '501', 'ten', '9'.repeat(20)] },
	{ name: 'SHUTDOWN_TIMEOUT_SECONDS', right: { '1': 1, '3600': 3600 }, wrong: ['0', '3601', '1s', 'Infinity'] },
];

function same(...values: string[]): Record<string, string> {
	return Object.fromEntries(values.map((value) => [value, value]));
}

test.each(table)(
	'$name is read when it is right; a wrong one gets a line that names it and what is allowed',
	({ name, right, wrong }) => {
		for (const [value, expected] of Object.entries(right))
			expect(read({ [name]: value })).toMatchObject({ [name]: expected });
		for (const value of wrong) {
			const lines = linesOf({ DATABASE_URL: url, [name]: value });
			expect(lines, value).toEqual([expect.stringMatching(new RegExp(`^${name} is wrong: it must be .+\\.$`))]);
		}
	},
);

test('an empty variable counts as not set', () => {
	const nothing = Object.fromEntries(table.map(({ name }) => [name, '']));
	expect(read({ ...nothing, HOST: '', DATABASE_URL: url })).toEqual(read({}));
	expect(linesOf({ DATABASE_URL: '' })).toEqual(linesOf({}));
});

test('every wrong variable gets one line, and no line repeats a value', () => {
	const wrong = Object.fromEntries(table.map(({ name }) => [name, `canary ${name.toLowerCase()}`]));
	const lines = linesOf(wrong);
	expect(lines.map((line) => line.split(' ')[0]).sort()).toEqual(table.map(({ name }) => name).sort());
	expect(lines.join('\n')).not.toContain('canary');
	expect(linesOf({ PORT: 'canary', LOG_LEVEL: 'canary' })).toHaveLength(3);
	expect(new ConfigError(lines).message).toBe(lines.join('\n'));
});

test.each(['\n', '\r\n', ' ', '\t', '\u00a0'])('white space at the ends of a value is no part of it: %j', (space) => {
	const environment = { DATABASE_URL: `${url}${space}`, PORT: `${space}3000${space}`, HOST: space };
	expect(readVariables(schema, environment)).toMatchObject({ DATABASE_URL: url, PORT: 3000, HOST: '127.0.0.1' });
});
