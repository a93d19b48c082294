import { Type } from '@sinclair/typebox';
import { describe, expect, test } from 'vitest';
import { ConfigError, integerVariable, readVariables, serviceVariables, urlVariable } from './config.js';

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

const addresses = 'addresses or CIDR ranges of the proxies in front, separated by commas';
const table: { name: string; right: string[]; wrong: string[]; allowed: string }[] = [
	{
		name: 'DATABASE_URL',
		right: [
			'postgres://host/db',
			'postgresql://u:p@[::1]:5432/db?sslmode=require',
			url,
			'postgres://u@a:5432,b:5433/db?target_session_attrs=read-write',
			'postgresql://u:p%40%2C%2F@a,[::1]:5433,10.0.0.3/db?sslmode=verify-full&target_session_attrs=primary',
			'postgres://u@a/db?sslmode=disable',
			'postgres://u@a/db?target_session_attrs=read-write',
		],
		wrong: [
			'host/db',
			'mysql://host/db',
			'http://host',
			'postgres://host:port/db',
			'postgres',
			'5432',
			'postgres://a:5432,b:port/db',
			'postgres://a,b:65536/db',
			'postgres://a,,b/db',
			'postgres://a,b,/db',
			'postgres://::1/db',
			'postgres://u:p%zz@host/db',
			'postgres:///db',
			'postgres://u:p@/db',
			'postgres://:5432/db',
			'postgres://u@a/db?sslmode=verify_full',
			'postgres://u@a/db?sslmode=Require',
			'postgres://u@a/db?sslmode=',
			'postgres://u@a,b/db?sslmode=require&sslmode=none',
			'postgres://u@a,b/db?target_session_attrs=writable',
			'postgres://u@a,b/db?target_session_attrs=any',
			'postgres://u@a,b/db?target_session_attrs=prefer-standby',
			'postgres://u@a/db?target_session_attrs=',
			'mysql://a,b/db',
		],
		allowed:
			'a URL like postgres://user:password@host:5432/database, or with several hosts postgres://user:password@host1:5432,host2:5432/database; sslmode may be disable, allow, prefer, require, verify-ca, verify-full',
	},
	{
		name: 'PORT',
		right: ['0', '1', '3000', '65535'],
		wrong: ['65536', '-1', '1.5', '1e3', '0x50', '+80', ' 80', '80 ', 'http', '٣'],
		allowed: 'an integer from 0 to 65535',
	},
	{
		name: 'LOG_LEVEL',
		right: ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'],
		wrong: ['INFO', 'verbose', 'warning', '30'],
		allowed: 'one of fatal, error, warn, info, debug, trace, silent',
	},
	{
		name: 'TRUST_PROXY',
		right: ['10.0.0.0/8', '127.0.0.1', '::1, fd00::/8', 'loopback,uniquelocal', '128.0.0.0/1', '10.0.0.0/32'],
		wrong: [
			'true',
			'1',
			'0.0.0.0/0',
			'::/0',
			'10.0.0.0/33',
			'::1/129',
			'10.0.0/8',
			'10.0.0.0/8/8',
			'10.0.0.0/',
			'proxy.example',
			',',
			'*',
		],
		allowed: addresses,
	},
	{
		name: 'DATABASE_POOL_SIZE',
		right: ['1', '10', '500'],
		wrong: ['0', '501', 'ten', '-10', '9'.repeat(20)],
		allowed: 'an integer from 1 to 500',
	},
	{
		name: 'SHUTDOWN_TIMEOUT_SECONDS',
		right: ['1', '3600'],
		wrong: ['0', '3601', '1s', 'Infinity'],
		allowed: 'an integer from 1 to 3600',
	},
];

const typed: Record<string, 'integer' | 'list'> = {
	PORT: 'integer',
	DATABASE_POOL_SIZE: 'integer',
	SHUTDOWN_TIMEOUT_SECONDS: 'integer',
	TRUST_PROXY: 'list',
};

describe.each(table)('$name', ({ name, right, wrong, allowed }) => {
	test.each(right)('accepts %s, as a number or a list where it is one', (value) => {
		const expected = { text: value, integer: Number(value), list: value.split(',').map((part) => part.trim()) };
		expect(read({ [name]: value })).toMatchObject({ [name]: expected[typed[name] ?? 'text'] });
	});

	test.each(wrong)('rejects %s, with one line that has the name and what is allowed', (value) => {
		expect(linesOf({ DATABASE_URL: url, [name]: value })).toEqual([`${name} is wrong: it must be ${allowed}.`]);
	});
});

test('every variable except DATABASE_URL has a default', () => {
	expect(read({})).toEqual({
		DATABASE_URL: url,
		HOST: '127.0.0.1',
		PORT: 3001,
		LOG_LEVEL: 'info',
		DATABASE_POOL_SIZE: 10,
		SHUTDOWN_TIMEOUT_SECONDS: 10,
	});
	expect(readVariables(serviceVariables(3000), { DATABASE_URL: url }).PORT).toBe(3000);
	expect(linesOf({})).toEqual([`DATABASE_URL is not set: it must be ${table[0]?.allowed}.`]);
});

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

test('unknown variables are ignored, and the environment stays unchanged', () => {
	const environment = { DATABASE_URL: url, PORT: '', PATH: '/bin', PASSWORD: 'canary' };
	expect(Object.keys(readVariables(schema, environment))).not.toContain('PATH');
	expect(environment).toEqual({ DATABASE_URL: url, PORT: '', PATH: '/bin', PASSWORD: 'canary' });
});

test('a service can add variables, which are checked in the same way', () => {
	const own = Type.Object({
		REDIS_URL: Type.Optional(urlVariable(['redis:', 'rediss:'], 'a URL like redis://host:6379', 'a Redis')),
		BURST: integerVariable(1, 10, 5, 'meaning'),
	});
	expect(readVariables(own, {})).toEqual({ BURST: 5 });
	expect(readVariables(own, { REDIS_URL: 'rediss://host' })).toEqual({ REDIS_URL: 'rediss://host', BURST: 5 });
	expect(() => readVariables(own, { REDIS_URL: 'http://canary', BURST: '11' })).toThrow(
		new ConfigError([
			'REDIS_URL is wrong: it must be a URL like redis://host:6379.',
			'BURST is wrong: it must be an integer from 1 to 10.',
		]),
	);
});
