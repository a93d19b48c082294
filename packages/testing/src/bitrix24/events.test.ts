import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, it, onTestFinished } from 'vitest';
import { noon, portal } from './testing/client.js';

/** A receiver of events that responds with these statuses, one after the other, then 200. */
async function receiver(...statuses: number[]) {
	const received: { type: string | undefined; body: string }[] = [];
	const server = createServer(async (request, response) => {
		received.push({ type: request.headers['content-type'], body: await text(request) });
		response.writeHead(statuses.shift() ?? 200).end();
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	onTestFinished(() => void server.close());
	return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/events` };
}

it('an event is a form with the id and no data [DOC]', async () => {
	const standIn = await portal({ applicationToken: 'abc' });
	const { received, url } = await receiver();
	expect(await standIn.sendEvent(url, 'ONCRMCONTACTUPDATE', 134_806)).toEqual({ status: 200 });
	expect(received[0]?.type).toBe('application/x-www-form-urlencoded');
	expect(received[0]?.body).toMatch(
		/^event=ONCRMCONTACTUPDATE&event_handler_id=58&data%5BFIELDS%5D%5BID%5D=134806&ts=/,
	);
	const form = Object.fromEntries(new URLSearchParams(received[0]?.body));
	expect(form).toEqual({
		event: 'ONCRMCONTACTUPDATE',
		event_handler_id: '58',
		'data[FIELDS][ID]': '134806',
		ts: String(noon / 1000),
		'auth[domain]': 'stand-in.bitrix24.example',
		'auth[client_endpoint]': 'https://stand-in.bitrix24.example/rest/',
		'auth[server_endpoint]': 'https://oauth.bitrix24.example/rest/',
		'auth[member_id]': expect.any(String),
		'auth[application_token]': 'abc',
	});
	expect(standIn.applicationToken).toBe('abc');
});

it('an event is sent once, whatever the response is [DOC]', async () => {
	const standIn = await portal();
	const { received, url } = await receiver(500);
	expect(await standIn.sendEvent(url, 'ONCRMCONTACTADD', 1)).toEqual({ status: 500 });
	expect(received).toHaveLength(1);
	expect(await standIn.sendEvent('http://127.0.0.1:1/', 'ONCRMCONTACTDELETE', 1)).toEqual({ status: 0 });
});

it('a thousand events arrive, a hundred at the same time', async () => {
	const standIn = await portal();
	const { received, url } = await receiver();
	for (let first = 1; first <= 1000; first += 100) {
		const sent = Array.from({ length: 100 }, (_, n) => standIn.sendEvent(url, 'ONCRMCONTACTUPDATE', first + n));
		expect(new Set((await Promise.all(sent)).map(({ status }) => status))).toEqual(new Set([200]));
	}
	expect(received).toHaveLength(1000);
});
