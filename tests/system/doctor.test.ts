import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { freePort } from '@contacts/testing/ports.js';
import type { RunningProcess } from '@contacts/testing/process.js';
import { startRedis } from '@contacts/testing/redis.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { contacts } from '../command.js';

let redis: RunningProcess;
let port: number;

test.beforeAll(async () => {
	port = await freePort();
	redis = await startRedis(port);
});
afterAll(() => redis?.stop());

const execute = promisify(execFile);

interface Finding {
	check: string;
	state: string;
	message: string;
}

/** The findings of the command about this Redis. */
async function look(password = ''): Promise<Finding[]> {
	const url = `redis://${password}127.0.0.1:${port}`;
	const { out } = await contacts(['doctor', '--json'], { DATABASE_URL: database.url, REDIS_URL: url });
	const { findings } = JSON.parse(out) as { findings: Finding[] };
	return findings.filter(({ check }) => check === 'redis');
}

const set = (name: string, value: string) =>
	execute('redis-cli', ['-p', String(port), 'config', 'set', name, value], { env: process.env });

test('contacts doctor reports a healthy Redis, one that evicts keys, and one that requires a password', async () => {
	expect(await look()).toMatchObject([{ state: 'ok' }]);
	await set('maxmemory', '100mb');
	await set('maxmemory-policy', 'allkeys-lru');
	expect(await look()).toMatchObject([
		{
			state: 'warning',
			message: expect.stringContaining('allkeys-lru'),
			advice: expect.stringContaining('noeviction'),
		},
	]);
	await set('maxmemory-policy', 'noeviction');
	await set('requirepass', 'secret');
	for (const password of ['', ':canary@']) {
		const findings = await look(password);
		expect(findings).toMatchObject([{ state: 'problem', message: expect.stringContaining('refuses the password') }]);
		expect(JSON.stringify(findings)).not.toContain('canary');
	}
	expect(await look(':secret@')).toMatchObject([{ state: 'ok' }]);
});
