import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accepts, freePort } from '@contacts/local-postgres/ports.js';
import { addProject } from '@contacts/testing/app.js';
import { environmentOf, startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { Redis } from 'ioredis';
import { describe, expect, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { contacts } from '../command.js';
import { read, root } from '../docs/pages.js';
import { startServiceProcess } from '../services.js';

const password = 'canary4711';
const { services } = parse(read('docker-compose.yml'), { merge: true }) as {
	services: { redis: { command: string[] } };
};

/** As a container, and as operations/ha/README.md says: a shell script, which reads and writes these files. */
const ways = {
	'the container': (folder: string) =>
		String(services.redis.command.at(-1))
			.replaceAll('$$', '$')
			.replaceAll('/etc/redis.conf', join(root, 'operations/redis/redis.conf'))
			.replaceAll('/tmp/redis.conf', join(folder, 'redis.conf')),
	'a machine': (folder: string) =>
		`${/^printf .*redis\.conf$/m.exec(read('operations/ha/README.md'))?.[0]}\nexec redis-server /etc/redis/redis.conf`
			.replaceAll('/etc/redis/redis.conf', join(folder, 'redis.conf'))
			.replaceAll('10.0.0.6', '127.0.0.1'),
};

describe.each(Object.entries(ways))('with the user of Redis that %s has', (_, way) => {
	/** @returns the URL of Redis for the services */
	async function startRedis(): Promise<string> {
		const [folder, port] = [await temporaryFolder(), await freePort()];
		const script = way(folder).replace(/^exec .*/m, (exec) => `${exec} --port ${port}`);
		const env = environmentOf({ REDISCLI_AUTH: password, PASSWORD: password });
		writeFileSync(join(folder, 'redis.conf'), '');
		const redis = startProcess('sh', ['-ec', script], { env, cwd: root });
		onTestFinished(() => redis.stop());
		await waitUntil(() => accepts(port), { timeoutMs: 10_000, message: redis.output });
		const commandLine = readFileSync(`/proc/${redis.pid}/cmdline`, 'utf8');
		expect(commandLine).toMatch(/^redis-server/);
		expect(commandLine).not.toContain(password);
		return `redis://contacts:${password}@127.0.0.1:${port}`;
	}

	test('company-contacts shares its buckets, and contacts doctor finds no problem', async () => {
		const url = await startRedis();
		await addProject(database.sql, 'partner', 'partner-key');
		const replicas = [1, 2].map(() => startServiceProcess('company-contacts', { REDIS_URL: url }));
		const list = '/api/company_contacts.list?company_id=1&project=partner&api_key=partner-key';
		const addresses = await Promise.all(replicas.map((replica) => replica.listening()));
		for (const address of addresses) {
			const metrics = async () => (await fetch(`${address}/metrics`)).text();
			await expect.poll(metrics).toContain('rate_limit_redis_up 1');
			await fetch(address + list);
			await expect.poll(metrics).toContain('rate_limit_decisions_total{decision="admitted",bucket="redis"} 1');
		}
		const { out } = await contacts(['doctor', '--json'], { DATABASE_URL: database.url, REDIS_URL: url });
		const { findings } = JSON.parse(out) as { findings: { check: string }[] };
		expect(findings.filter(({ check }) => check === 'redis')).toMatchObject([{ state: 'ok' }]);
	});

	test('nobody can do anything else', async () => {
		const url = await startRedis();
		const redis = new Redis(url, { maxRetriesPerRequest: 0, retryStrategy: () => null });
		onTestFinished(() => redis.disconnect());
		await redis.ping();
		const forbidden = [
			...[['config', 'set', 'maxmemory', '0'], ['flushall'], ['keys', '*'], ['get', 'other'], ['set', 'other', '1']],
			...[['acl', 'list'], ['shutdown'], ['client', 'kill', 'id', '1'], ['monitor']],
			...[
				['replicaof', 'no', 'one'],
				['script', 'flush'],
				['subscribe', 'x'],
				['publish', 'x', '1'],
			],
			['eval', "return redis.call('SET', 'other', '1')", '0'],
		];
		for (const [command = '', ...args] of forbidden)
			await expect(redis.call(command, ...args), command).rejects.toThrow(/NOPERM|can't access/);
		for (const other of [url.replace(`contacts:${password}@`, ''), url.replace('contacts', '')]) {
			const stranger = new Redis(other, { lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null });
			stranger.on('error', () => undefined);
			await expect(stranger.ping()).rejects.toThrow();
			stranger.disconnect();
		}
	});
});
