import { once } from 'node:events';
import { Agent, createServer, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '@contacts/local-postgres/ports.js';
import { addProject } from '@contacts/testing/app.js';
import { makeCertificate } from '@contacts/testing/certificate.js';
import { gatewayConfig, withTls } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { startProcess } from '@contacts/testing/process.js';
import type { RunningService } from '@contacts/testing/services.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect, onTestFinished } from 'vitest';
import { startService } from '../services.js';

const attacker = fileURLToPath(new URL('gateway-attacks.py', import.meta.url));
type Scheme = 'http' | 'https';

/** What connections.nft allows to an address. */
const connectionsEach = 600;
/** Milliseconds for which everything is watched while the attack has all of its connections. */
const watchedMs = 6000;

let service: RunningService;
let gateway: RunningNginx;
const certificates = sharedFolder();
const ports = { http: '', https: '' };
const receiver = createServer((incoming, response) => incoming.resume().on('end', () => response.end('ok')));

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', 'partner-key');
	await database.sql`insert into company_contacts (bitrix_id, name) select n, 'Ann' from generate_series(1, 200) n`;
	receiver.listen(0, '127.0.0.1');
	await once(receiver, 'listening');
	service = await startService('company-contacts', { TRUST_PROXY: 'loopback', RATE_LIMIT_BURST: '10000' });
	const events = `127.0.0.1:${(receiver.address() as AddressInfo).port}`;
	makeCertificate(certificates);
	const port = await freePort();
	gateway = await startNginx(withTls(gatewayConfig(new URL(service.url).host, { events }), port, certificates));
	ports.https = String(port);
	ports.http = new URL(gateway.url).port;
});
afterAll(async () => {
	await gateway?.stop('SIGTERM');
	await service?.stop();
	receiver.close().closeAllConnections();
});

const partner = { keepAlive: true, localAddress: '127.0.1.1', rejectUnauthorized: false };
const kept = { http: new Agent(partner), https: new TlsAgent(partner) };
const list = '/api/company_contacts.list?project=partner&api_key=partner-key';

/** The requests of others: a partner, a reader and the CRM. */
const others: Record<string, (scheme: Scheme) => Promise<number | string>> = {
	'a list on a kept connection': (scheme) => ask(scheme, list, { agent: kept[scheme] }),
	'a list on a new connection': (scheme) => ask(scheme, list, { agent: false, localAddress: '127.0.1.1' }),
	'a page': (scheme) => ask(scheme, '/openapi.json', { agent: false, localAddress: '127.0.1.2' }),
	'an event': (scheme) => ask(scheme, '/bitrix24/events', { agent: false, localAddress: '127.0.1.3', method: 'POST' }),
};

/** @returns the status, or why there is none */
function ask(scheme: Scheme, path: string, options: object): Promise<number | string> {
	return new Promise((resolve) => {
		const send = scheme === 'http' ? request : tlsRequest;
		const url = `${scheme}://127.0.0.1:${ports[scheme]}${path}`;
		send(url, { ...options, rejectUnauthorized: false, timeout: 5000 }, (response) => {
			response.resume().on('end', () => resolve(response.statusCode ?? 0));
		})
			.on('timeout', () => resolve('timeout'))
			.on('error', ({ message }) => resolve(message))
			.end();
	});
}

test.each<[number, Scheme, string[]]>([
	[4, 'http', ['unread 401s']],
	[4, 'http', ['a page, and then 401s']],
	[4, 'https', ['unread 401s', 'a page, and then 401s']],
	[
		19,
		'http',
		[
			'unread 401s',
			'unread 401s, three at a time',
			'a page, and then 401s',
			'404s, and then 401s',
			'an unread page',
			'unfinished headers',
			'silence',
			'a slow body of a GET',
			'a slow body of a POST',
			'a slow event',
		],
	],
])(
	'%i addresses without a key, over %s, each with all of its connections, make no request of others fail: %j',
	async (count, scheme, kinds) => {
		const addresses = Array.from({ length: count }, (_, n) => `127.0.0.${11 + n}`);
		// So fast that all are open in ten seconds, and so slowly that each gets its place.
		const rate = String(Math.max(400, (count * connectionsEach) / 10));
		const attack = startProcess('python3', [
			...[attacker, scheme, ports[scheme], addresses.join(), String(connectionsEach), rate],
			...kinds,
		]);
		onTestFinished(() => attack.stop('SIGKILL'));
		await attack.waitForLine(/^open/m);
		const statuses = Object.keys(others).map((name) => ({ name, seen: [] as (number | string)[] }));
		for (const until = performance.now() + watchedMs; performance.now() < until; await delay(100))
			for (const { name, seen } of statuses) seen.push((await others[name]?.(scheme)) ?? 'none');
		console.log(`${count} addresses: ${statuses[0]?.seen.length} rounds, the gateway has ${gateway.memory()} MiB`);
		for (const { name, seen } of statuses) expect([name, ...new Set(seen)]).toEqual([name, 200]);
	},
);
