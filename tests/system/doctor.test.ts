import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '@contacts/testing/ports.js';
import type { RunningProcess } from '@contacts/testing/process.js';
import { startRedis } from '@contacts/testing/redis.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';

let redis: RunningProcess;
let port: number;

test.beforeAll(async () => {
	port = await freePort();
	redis = await startRedis(port);
});
afterAll(() => redis?.stop());

const execute = promisify(execFile);
const command = fileURLToPath(new URL('../../tools/cli/dist/main.js', import.meta.url));

interface Finding {
	check: string;
	state: string;
	message: string;
}

/** The findings of the command about this Redis, run as a separate process. */
async function look(password = ''): Promise<Finding[]> {
	const env = { DATABASE_URL: database.url, REDIS_URL: `redis://${password}127.0.0.1:${port}` };
	// It exits with 1, because the test's database may lose data.
	const { stdout } = await execute(process.execPath, [command, 'doctor', '--json'], { env }).catch((error) => error);
	const { findings } = JSON.parse(stdout) as { findings: Finding[] };
	return findings.filter(({ check }) => check === 'redis');
}

const set = (name: string, value: string) =>
	execute('redis-cli', ['-p', String(port), 'config', 'set', name, value], { env: process.env });

test('contacts doctor reports a healthy Redis, one that evicts keys, and one that requires a password', async () => {
	expect(await look()).toEqual([
		{
			check: 'redis',
			state: 'ok',
			message: expect.stringMatching(/^Redis \d+\.\d+\.\d+ at 127\.0\.0\.1:\d+ responds\.$/),
		},
	]);
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
	expect(await look()).toMatchObject([{ state: 'ok' }]);
	await set('requirepass', 'secret');
	for (const password of ['', ':canary@']) {
		const findings = await look(password);
		expect(findings).toMatchObject([{ state: 'problem', message: expect.stringContaining('refuses the password') }]);
		expect(JSON.stringify(findings)).not.toContain('canary');
	}
	expect(await look(':secret@')).toMatchObject([{ state: 'ok' }]);
});
