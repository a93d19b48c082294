import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { countResults, openLoop, quantile, type Shot, type ShotResult, send, spread } from '@contacts/testing/load.js';
import { residentMiB, unsentBytes } from '@contacts/testing/proc.js';
import type { RunningService } from '@contacts/testing/services.js';
import { watchStarvedTime } from '@contacts/testing/starved-time.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { addLoadProject, list, start, untilServed, upsert } from './one-service.js';

const unlimited = { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000' };
/** On a busy machine thousands of connections take their time. */
const patient = { timeout: 120_000 };
vi.setConfig({ testTimeout: 240_000 });

test.beforeAll(addLoadProject);

describe('slow clients do not block others', () => {
	/** Connections that stay idle until the end of the test. The service decides how many stay open. */
	async function connectMany(service: RunningService, count: number, use: (socket: Socket, index: number) => void) {
		const port = Number(new URL(service.url).port);
		const sockets: Socket[] = [];
		onTestFinished(() => {
			for (const socket of sockets) socket.destroy();
		});
		while (sockets.length < count) {
			const batch = Array.from({ length: Math.min(200, count - sockets.length) }, () =>
				connect({ port, host: '127.0.0.1' }).on('error', () => undefined),
			);
			sockets.push(...batch);
			await Promise.all(batch.map((socket) => once(socket, 'connect')));
		}
		for (const [index, socket] of sockets.entries()) use(socket, index);
		return sockets;
	}

	/**
	 * A client whose requests must all succeed, as fast as on a service without slow clients. One may fail from which the machine
	 * took most of a statement's three seconds.
	 */
	async function probe(service: RunningService, what: string, next: (index: number) => Shot): Promise<void> {
		const machine = watchStarvedTime(() => [service.pid]);
		const outcomes = await openLoop(service.url, 10, 4, next);
		machine.stop();
		console.log(
			`${what}: ${spread(outcomes)}, of its own ${spread(outcomes, machine.own)}, ${Math.round(residentMiB(service.pid))} MiB`,
		);
		const isStarved = ({ result, ...time }: ShotResult) =>
			(result === 500 || result === 503) && machine.during(time) > 2000;
		const failed = outcomes.filter((each) => each.result !== 200 && !isStarved(each));
		expect(countResults(failed)).toEqual({});
		// Most take some milliseconds here.
		expect(quantile(outcomes, 0.5, machine.own)).toBeLessThan(600);
		expect(quantile(outcomes, 1, machine.own)).toBeLessThan(1000);
	}

	test('5,000 idle connections, and 1,000 whose headers and bodies come byte by byte', async () => {
		const service = await start('personal-contacts');
		const before = residentMiB(service.pid);
		const idle = await connectMany(service, 5000, (socket) => socket.resume());
		const head = `POST ${upsert(1).path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`;
		const sending = await connectMany(service, 1000, (socket, index) => {
			socket.resume();
			socket.write(index % 2 ? head : `${head}Content-Length: 1000\r\n\r\n{`);
		});
		const dripping = setInterval(() => {
			for (const [index, socket] of sending.entries())
				if (socket.writable) socket.write(index % 2 ? 'X-Slow: 1\r\n' : ' ');
		}, 1000);
		onTestFinished(() => clearInterval(dripping));
		// To open thousands of connections at once is a load of its own.
		await untilServed(service, upsert);
		await probe(service, '5,000 idle connections and 1,000 slow senders', upsert);
		expect(residentMiB(service.pid) - before).toBeLessThan(200);
		// The service closes them when no request comes in time.
		await vi.waitUntil(() => [...idle, ...sending].every((socket) => socket.closed), patient);
	});

	test('responses that are not read', async () => {
		await database.sql`
			insert into company_contacts (bitrix_id, name, company_ids)
			select n, repeat('x', 1000), '{1}' from generate_series(1, 5000) as n`;
		onTestFinished(async () => void (await database.sql`delete from company_contacts`));
		const service = await start('company-contacts', unlimited);
		await send(service.url, list(1));
		const before = residentMiB(service.pid);
		const request = `GET ${list(1).path} HTTP/1.1\r\nHost: a\r\n\r\n`;
		await connectMany(service, 500, (socket) => {
			socket.pause();
			socket.write(request);
		});
		// All of them at once exceed the limit of concurrent requests.
		await untilServed(service, () => list(2));
		await probe(service, '500 clients that do not read 5 MB', () => list(2));
		// The list that all of them requested is kept only once.
		expect(residentMiB(service.pid) - before).toBeLessThan(200);
	});

	/** Clients without a key that read only the beginning of a response. @returns the statuses */
	async function stopReading(service: RunningService, ...paths: string[]) {
		const sockets = await connectMany(service, 1500, (socket, index) => {
			socket.write(`GET ${paths[index % paths.length]} HTTP/1.1\r\nHost: a\r\n\r\n`);
		});
		const statuses = sockets.map(async (socket) => {
			const [start] = await once(socket, 'data');
			socket.pause();
			return String(start).slice(9, 12);
		});
		return new Set(await Promise.all(statuses));
	}

	test('1,500 responses to GET /docs and /openapi.json that are not read', async () => {
		const service = await start('company-contacts', unlimited);
		for (const path of ['/docs', '/openapi.json']) await send(service.url, { method: 'GET', path });
		const before = residentMiB(service.pid);
		expect(await stopReading(service, '/docs', '/openapi.json')).toEqual(new Set(['200']));
		await probe(service, '1,500 clients that do not read /docs and /openapi.json', () => list(2));
		expect(residentMiB(service.pid) - before).toBeLessThan(60);
	});

	test('1,500 requests for the script of /docs whose responses are not read', async () => {
		const service = await start('company-contacts', unlimited);
		const script: Shot = { method: 'GET', path: '/docs/scalar.js' };
		expect(await send(service.url, script)).toMatchObject({ result: 200 });
		const before = residentMiB(service.pid);
		expect(await stopReading(service, script.path)).toEqual(new Set(['200', '503']));
		await probe(service, '1,500 clients that do not read /docs/scalar.js', () => list(2));
		expect(residentMiB(service.pid) - before).toBeLessThan(60);
		// Together less than half of what the container and the unit may use.
		expect(unsentBytes(Number(new URL(service.url).port)) / 1_048_576).toBeLessThan(61);
		// Clients that don't read give way after ten seconds.
		await expect.poll(async () => (await send(service.url, script)).result).toBe(200);
	});
});
