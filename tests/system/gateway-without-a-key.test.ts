import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { addProject } from '@contacts/testing/app.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import type { RunningService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { startService } from '../services.js';

const path = '/api/company_contacts.list';
/** Three attackers, each with as many connections as one address may have at the API. */
const attackers = ['127.0.0.2', '127.0.0.3', '127.0.0.4'];
const connectionsEach = 500;
const partner = '127.0.0.5';
let service: RunningService;
let gateway: RunningNginx;

test.beforeAll(async () => {
	await addProject(database.sql, 'first', 'first-key');
	service = await startService('company-contacts', { TRUST_PROXY: 'loopback', RATE_LIMIT_BURST: '1000' });
	// Nothing receives the events: a gateway forwards a request only when its body is complete.
	gateway = await startNginx(gatewayConfig(new URL(service.url).host, { events: '127.0.0.1:1' }));
});
afterAll(async () => {
	await gateway?.stop('SIGTERM');
	await service?.stop();
});

/** Connections that each send these bytes, and read the beginning of the response and no more. */
async function attack(
	bytes: string,
	addresses: readonly string[],
	each: number,
	on = gateway,
): Promise<{ statuses(): number[] }> {
	const starts = new Map<Socket, number>();
	const port = Number(new URL(on.url).port);
	const sockets = addresses.flatMap((localAddress) =>
		Array.from({ length: each }, () => connect({ port, host: '127.0.0.1', localAddress })),
	);
	onTestFinished(() => {
		for (const socket of sockets) socket.destroy();
	});
	for (const socket of sockets) {
		socket.on('error', () => undefined);
		socket.once('data', (start) => starts.set(socket.pause(), Number(String(start).slice(9, 12))));
		if (socket.connecting) await once(socket, 'connect');
		socket.write(bytes);
	}
	return { statuses: () => [...starts.values()] };
}

/** How often each status is there. */
const counted = (statuses: readonly number[]) =>
	Object.fromEntries(
		[...new Set(statuses)].map((status) => [status, statuses.filter((each) => each === status).length]),
	);

/** The status of a request on a new connection from this address. */
const statusOf = (target: string, localAddress: string, on = gateway) =>
	new Promise<number | undefined>((resolve, reject) => {
		request(on.url + target, { agent: false, localAddress }, (response) => {
			response.resume().on('end', () => resolve(response.statusCode));
		})
			.on('error', reject)
			.end();
	});

async function expectPartnerServed(): Promise<void> {
	const statuses: (number | undefined)[] = [];
	for (let n = 0; n < 30; n++) {
		statuses.push(await statusOf(`${path}?project=first&api_key=first-key&company_id=1`, partner));
	}
	expect(statuses).toEqual(statuses.map(() => 200));
}

const unfinished = (method: string, target: string) =>
	`${method} ${target} HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\nx`;

describe('three addresses without a key close the API to no other address', () => {
	test.each([
		['slow bodies of GET', unfinished('GET', path), { 413: 1500 }],
		['slow bodies of POST', unfinished('POST', path), { 405: 1500 }],
		['slow bodies for a page', unfinished('GET', '/docs'), { 413: 1500 }],
		// What an address may have at once waits for its body.
		['slow events', unfinished('POST', '/bitrix24/events'), { 429: 1440 }],
	])('with %s', async (_, bytes, responses) => {
		const { statuses } = await attack(bytes, attackers, connectionsEach);
		await expectPartnerServed();
		await expect.poll(() => counted(statuses())).toEqual(responses);
		await expectPartnerServed();
	});

	test('with unread pages', async () => {
		const { statuses } = await attack('GET /docs/scalar.js HTTP/1.1\r\nHost: a\r\n\r\n', attackers, connectionsEach);
		await expectPartnerServed();
		await expect.poll(() => statuses().length).toBe(attackers.length * connectionsEach);
		// Each page that the service refuses leaves a place at the gateway to another one.
		expect([...new Set(statuses())].toSorted()).toEqual([200, 429, 503]);
		await expectPartnerServed();
	});
});

test.each([
	['without a body', ''],
	['with chunks of nothing', 'Transfer-Encoding: chunked\r\n'],
])(
	'15 pages are read at once by one address, 300 by all, and one more by the health check of the gateway, %s',
	async (_, header) => {
		// The service itself would admit fewer of them.
		const page = Buffer.alloc(8_000_000);
		const pages = createServer((request, response) => response.end(request.url === '/docs' ? page : '')).listen(
			0,
			'127.0.0.1',
		);
		await once(pages, 'listening');
		const nginx = await startNginx(gatewayConfig(`127.0.0.1:${(pages.address() as AddressInfo).port}`));
		onTestFinished(async () => {
			await nginx.stop('SIGTERM');
			pages.close().closeAllConnections();
		});
		const readers = Array.from({ length: 20 }, (_, n) => `127.0.0.${11 + n}`);
		const bytes = `GET /docs HTTP/1.1\r\nHost: a\r\n${header}\r\n${header && '0\r\n\r\n'}`;
		// Nineteen addresses can't have them all.
		for (const [addresses, responses] of [
			[readers.slice(1), { 200: 285, 429: 95 }],
			[readers.slice(0, 1), { 200: 15, 429: 5 }],
		] as const) {
			const { statuses } = await attack(bytes, addresses, 20, nginx);
			await expect.poll(() => counted(statuses())).toEqual(responses);
		}
		expect(await statusOf('/openapi.json', '127.0.0.8', nginx)).toBe(429);
		expect(await statusOf('/openapi.json', '127.0.0.1', nginx)).toBe(200);
	},
);
