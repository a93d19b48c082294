import { once } from 'node:events';
import { Agent, createServer, get } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { freePort } from '@contacts/local-postgres/ports.js';
import { addProject } from '@contacts/testing/app.js';
import { gatewayConfig, withoutRate } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { read } from '../docs/pages.js';
import { startService } from '../services.js';

const path = '/api/company_contacts.list';
const companies = 20;

test.beforeAll(async () => {
	await addProject(database.sql, 'first', 'first-key');
	await database.sql`
		insert into company_contacts (bitrix_id, company_ids, name)
		select n, array[n], 'company ' || n from generate_series(1, ${companies}::int) n`;
});

const start = (environment: Record<string, string> = {}) =>
	startService('company-contacts', {
		TRUST_PROXY: 'loopback',
		RATE_LIMIT_PER_SECOND: '100000',
		RATE_LIMIT_BURST: '100000',
		...environment,
	});

async function startGateway(replicas: string | readonly string[]): Promise<RunningNginx> {
	const gateway = await startNginx(gatewayConfig(replicas, withoutRate));
	onTestFinished(() => gateway.stop('SIGTERM'));
	return gateway;
}

const listOf = (company: number) => `${path}?project=first&api_key=first-key&company_id=${company}`;

/** Requests the list of a company. @returns what is wrong with the response, or nothing */
function wrongList(gateway: RunningNginx, company: number, agent: Agent): Promise<string | undefined> {
	return new Promise((resolve) => {
		get(gateway.url + listOf(company), { agent }, async (response) => {
			const body = await text(response).catch(String);
			const isRight = response.statusCode === 200 && body.includes(`"name":"company ${company}"`);
			resolve(isRight && body.startsWith('{"count":1,') ? undefined : `${response.statusCode} ${body}`);
		}).on('error', (error) => resolve(String(error)));
	});
}

test('every group of replicas keeps connections, for less time than the service does', async () => {
	const service = await start();
	onTestFinished(() => service.stop());
	const response = await fetch(service.url + listOf(1));
	const kept = Number(/timeout=(\d+)/.exec(String(response.headers.get('keep-alive')))?.[1]);
	for (const file of ['gateway/upstream.conf', 'operations/systemd/upstream.conf', 'operations/ha/upstream.conf']) {
		const [, group = ''] =
			/upstream company_contacts \{([^}]*)\n\}/.exec(read(file).replaceAll(/\$\{\w+\}/g, '')) ?? [];
		expect([file, /\bkeepalive 64;/.test(group)]).toEqual([file, true]);
		expect(Number(/\bkeepalive_timeout (\d+)s;/.exec(group)?.[1]), file).toBeLessThan(kept - 5);
	}
});

test('two hundred requests, each from a client of its own, share one connection to the service', async () => {
	let connections = 0;
	const service = createServer((_request, response) => response.end('served'));
	service.on('connection', () => connections++).listen(0, '127.0.0.1');
	onTestFinished(() => void service.close());
	await once(service, 'listening');
	const gateway = await startGateway(`127.0.0.1:${(service.address() as AddressInfo).port}`);
	for (let n = 0; n < 200; n++) {
		const response = await fetch(gateway.url + listOf(1), { headers: { connection: 'close' } });
		expect(await response.text()).toBe('served');
	}
	expect(connections).toBe(1);
});

/** A request within a request: if the service ever reads it as one, another client gets its response. */
const hidden = `GET ${listOf(companies)} HTTP/1.1\r\nHost: a\r\n\r\n`;
const chunk = `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`;
const line = `GET ${listOf(companies)} HTTP/1.1\r\nHost: a\r\n`;
const hostile: Record<string, string> = {
	'a body': `${line}Content-Length: ${hidden.length}\r\n\r\n${hidden}`,
	'a chunked body': `${line}Transfer-Encoding: chunked\r\n\r\n${chunk}`,
	'a body of no bytes, and more': `${line}Content-Length: 0\r\n\r\n${hidden}`,
	'a length and chunks': `${line}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}`,
	'chunks and a length': `${line}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n${chunk}`,
	'two lengths': `${line}Content-Length: 0\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
	'a list of lengths': `${line}Content-Length: 0, ${hidden.length}\r\n\r\n${hidden}`,
	'a signed length': `${line}Content-Length: +${hidden.length}\r\n\r\n${hidden}`,
	'a hexadecimal length': `${line}Content-Length: 0x10\r\n\r\n${hidden}`,
	'a negative length': `${line}Content-Length: -1\r\n\r\n${hidden}`,
	'a space before the colon': `${line}Transfer-Encoding : chunked\r\n\r\n${chunk}`,
	'a tab after the colon': `${line}Transfer-Encoding:\tchunked\r\n\r\n${chunk}`,
	'a vertical tab': `${line}Transfer-Encoding: \x0bchunked\r\n\r\n${chunk}`,
	'an unknown encoding': `${line}Transfer-Encoding: xchunked\r\n\r\n${chunk}`,
	'two encodings': `${line}Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}`,
	'a list of encodings': `${line}Transfer-Encoding: gzip, chunked\r\n\r\n${chunk}`,
	'an underscore': `${line}Transfer_Encoding: chunked\r\nContent_Length: 9\r\n\r\n${hidden}`,
	'a folded header': `${line}X: a\r\n Transfer-Encoding: chunked\r\n\r\n${chunk}`,
	'a bare carriage return': `${line}X: a\rTransfer-Encoding: chunked\r\n\r\n${chunk}`,
	'bare line feeds': `${line}X: a\nTransfer-Encoding: chunked\n\n${chunk}`,
	'a null byte': `${line}X: a\0\r\nY: b\r\n\r\n${hidden}`,
	'line feeds in the path': `GET ${path}%0d%0aX:%20y%0d%0a%0d%0a${encodeURIComponent(hidden)} HTTP/1.1\r\nHost: a\r\n\r\n`,
	'line feeds in the query': `GET ${listOf(1)}&x=%0d%0a%0d%0a${encodeURIComponent(hidden)} HTTP/1.1\r\nHost: a\r\n\r\n`,
	'a path of pages with line feeds': `GET /docs/%0d%0a%0d%0aGET%20/ HTTP/1.1\r\nHost: a\r\n\r\n`,
	'a forged connection header': `${line}Connection: close, x-forwarded-for, host\r\nKeep-Alive: timeout=1\r\n\r\n${hidden}`,
	'an upgrade': `${line}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n${hidden}`,
	'an expectation': `${line}Expect: 100-continue\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
	'another method with a body': `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
	'a tunnel': `CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n${hidden}`,
	'an absolute target': `GET http://b${listOf(companies)} HTTP/1.1\r\nHost: a\r\n\r\n${hidden}`,
	'the old version': `GET ${listOf(companies)} HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}`,
	'no version': `GET ${listOf(companies)}\r\n${hidden}`,
	'many requests that nobody waits for': hidden.repeat(20),
};

test('no request of a client changes what another client gets over the same connection to the service', async () => {
	const service = await start();
	onTestFinished(() => service.stop());
	const gateway = await startGateway(new URL(service.url).host);
	const agent = new Agent({ keepAlive: true, maxSockets: 4 });
	const wrong: string[] = [];
	for (const [name, bytes] of Object.entries(hostile)) {
		const socket = connect({ port: Number(new URL(gateway.url).port), host: '127.0.0.1' });
		onTestFinished(() => void socket.destroy());
		socket.on('error', () => undefined).write(Buffer.from(bytes, 'latin1'));
		// Some get no response, but a closed connection.
		await new Promise((resolve) => socket.once('data', resolve).once('close', resolve));
		const lists = await Promise.all(
			Array.from({ length: companies - 1 }, (_, index) => wrongList(gateway, index + 1, agent)),
		);
		wrong.push(...lists.filter((list) => list !== undefined).map((list) => `${name}: ${list}`));
	}
	expect(wrong).toEqual([]);
	agent.destroy();
	// The service has seen the requests that the gateway has passed, and no other.
	const logged = () => service.log().filter(({ msg }) => msg === 'request').length;
	const passed = () =>
		gateway
			.accessLog()
			.split('\n')
			.filter((entry) => /"upstream_status":"\d{3}"/.test(entry)).length;
	await expect.poll(() => logged() - passed()).toBe(0);
	expect(passed()).toBeGreaterThan(Object.keys(hostile).length * (companies - 1));
});

/** Whether a process without a turn of its event loop has refused a list by itself. The gateway's own IDs have no hyphens. */
const isShed = (list: string) => /^503 .*"request_id":"[0-9a-f]{8}-/.test(list);

// As an upgrade does it. Two replicas that restart one after the other are in tests/faults/zero-downtime.test.ts.
test('no list fails while a replica that is alone is replaced by a second one that starts first, under requests over kept connections', async () => {
	const port = await freePort();
	const addresses = ['127.0.0.1', '127.0.0.2'] as const;
	const startAt = async (address: string) => {
		const replica = await start({ HOST: address, PORT: String(port) });
		onTestFinished(() => replica.stop());
		return replica;
	};
	let replica = await startAt(addresses[0]);
	const gateway = await startGateway(addresses.map((address) => `${address}:${port}`));

	let running = true;
	let served = 0;
	const wrong: string[] = [];
	const agent = new Agent({ keepAlive: true });
	const clients = Array.from({ length: 2 }, async (_, index) => {
		while (running) {
			const list = await wrongList(gateway, index + 1, agent);
			if (list !== undefined && !isShed(list)) wrong.push(list);
			served++;
		}
	});
	for (const address of addresses.toReversed()) {
		const next = await startAt(address);
		const before = served;
		await expect.poll(() => served).toBeGreaterThan(before + 50);
		await replica.stop('SIGTERM');
		replica = next;
	}
	running = false;
	await Promise.all(clients);
	agent.destroy();
	console.info(`${served} lists, ${wrong.length} of them failed`);
	expect(wrong).toEqual([]);
});
