import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { addProject } from '@contacts/testing/app.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { residentMiB } from '@contacts/testing/proc.js';
import type { RunningService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { afterAll, expect } from 'vitest';
import { startService } from '../services.js';

/** The list has some 9 MB, more than the buffers of all sockets on its way hold. */
const contacts = 8_000;
const readers = 40;
let service: RunningService;
let gateway: RunningNginx;
const open: Socket[] = [];

test.beforeAll(async () => {
	await addProject(database.sql, 'first', 'first-key');
	await database.sql`
		insert into company_contacts (bitrix_id, perplexity_reason)
		select n, repeat('x', 1000) from generate_series(1, ${contacts}::int) n`;
	service = await startService('company-contacts', { TRUST_PROXY: 'loopback' });
	gateway = await startNginx(gatewayConfig(new URL(service.url).host));
	// The first list is read from the table, which a busy machine may not do within the deadline of a request.
	const readList = async () => {
		const response = await fetch(gateway.url + path);
		await response.arrayBuffer();
		return response.status;
	};
	await waitUntil(async () => (await readList()) === 200, { timeoutMs: 100_000 });
});
afterAll(async () => {
	for (const socket of open) socket.destroy();
	await gateway?.stop('SIGTERM');
	await service?.stop();
});

const path = '/api/company_contacts.list?project=first&api_key=first-key';

/** A client that reads the beginning of the list, then stops. */
async function stopReading(): Promise<void> {
	const socket = connect({ port: Number(new URL(gateway.url).port), host: '127.0.0.1' });
	open.push(socket.on('error', () => undefined));
	socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
	const [start] = (await once(socket, 'data')) as [Buffer];
	socket.pause();
	expect(String(start).slice(0, 15)).toBe('HTTP/1.1 200 OK');
}

test('forty clients that read nothing of a large list fill neither the disk nor the memory, and another client is served', async () => {
	const before = gateway.memory();
	for (let reader = 0; reader < readers; reader++) await stopReading();
	const used: number[] = [];
	for (let round = 0; round < 3; round++) {
		const response = await fetch(gateway.url + path);
		const { count, data } = (await response.json()) as { count: number; data: unknown[] };
		expect([response.status, count, data.length]).toEqual([200, contacts, contacts]);
		used.push(gateway.temporaryBytes());
	}
	expect(used).toEqual([0, 0, 0]);
	// 40 KB of buffers for each.
	expect(gateway.memory() - before).toBeLessThan(readers * 0.25 + 10);
	// The service keeps one copy of the list, however many clients read it.
	expect(residentMiB(service.pid)).toBeLessThan(300);
	expect((await fetch(`${gateway.url}/openapi.json`)).status).toBe(200);
});
