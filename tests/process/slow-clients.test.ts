import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { countResults, openLoop, quantile, type Shot, send, spread } from '@contacts/testing/load.js';
import { watchDelays } from '@contacts/testing/machine-delays.js';
import { residentMiB } from '@contacts/testing/proc.js';
import type { RunningService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { addLoadProject, list, start, startControl, untilServed, upsert, withoutDelays } from './one-service.js';

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
				connect({ port, host: '127.0.0.1' }),
			);
			sockets.push(...batch);
			await Promise.all(batch.map((socket) => once(socket, 'connect')));
		}
		for (const [index, socket] of sockets.entries()) {
			socket.on('error', () => undefined);
			use(socket, index);
		}
		return sockets;
	}

	/** A client whose requests must all succeed, as fast as on a service without slow clients. */
	async function probe(service: RunningService, what: string, next: (index: number) => Shot): Promise<void> {
		const stop = watchDelays(await startControl());
		const outcomes = await openLoop(service.url, 10, 4, next);
		const machine = await stop();
		const own = withoutDelays(outcomes, machine);
		console.log(
			`${what}: ${spread(outcomes)}, without delays ${spread(own)}, ${Math.round(residentMiB(service.pid))} MiB`,
		);
		// So few that none is refused after a stall of the machine: fifty may always wait.
		expect(countResults(outcomes)).toEqual({ 200: outcomes.length });
		// Here it takes some milliseconds, unless the machine itself stalls.
		expect(quantile(own, 1)).toBeLessThan(2000 * machine.slowdown);
	}

	test('5,000 idle connections', async () => {
		const service = await start('personal-contacts');
		const before = residentMiB(service.pid);
		const sockets = await connectMany(service, 5000, (socket) => socket.resume());
		await probe(service, '5,000 idle connections', upsert);
		expect(residentMiB(service.pid) - before).toBeLessThan(200);
		// The service closes them when no request comes in time.
		await vi.waitUntil(() => sockets.every((socket) => socket.closed), { timeout: 30_000 });
	});

	test('headers and bodies that come byte by byte', async () => {
		const service = await start('personal-contacts');
		const head = `POST ${upsert(1).path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`;
		const sockets = await connectMany(service, 1000, (socket, index) => {
			socket.resume();
			socket.write(index % 2 ? head : `${head}Content-Length: 1000\r\n\r\n{`);
		});
		const dripping = setInterval(() => {
			for (const [index, socket] of sockets.entries())
				if (socket.writable) socket.write(index % 2 ? 'X-Slow: 1\r\n' : ' ');
		}, 200);
		onTestFinished(() => clearInterval(dripping));
		await probe(service, '1,000 slow senders', upsert);
		await vi.waitUntil(() => sockets.every((socket) => socket.closed), { timeout: 30_000 });
	});

	test('responses that are not read', async () => {
		await database.sql`
			insert into company_contacts (bitrix_id, name, company_ids)
			select n, repeat('x', 1000), '{1}' from generate_series(1, 5000) as n`;
		onTestFinished(async () => void (await database.sql`delete from company_contacts`));
		const service = await start('company-contacts', { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000' });
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
});
