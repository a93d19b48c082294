import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import type { Stage } from './stage.js';

/** A status, `dropped` where this client disconnected on purpose, or an error code. */
export type Outcome = number | 'dropped' | string;

/** A kind of request that services get in production. */
export interface Kind {
	name: string;
	/** The share of this kind, in percent. */
	share: number;
	expected: readonly Outcome[];
	send(): Promise<Outcome>;
}

const limit = 10_000;

/** Every kind of request, in its usual share. */
export function requestKinds({ company, personal, credentials }: Stage): { kinds: Kind[]; close(): void } {
	const agent = new Agent({ keepAlive: true, maxSockets: 50 });
	const list = `${company.url}/api/company_contacts.list?${credentials}`;
	const save = `${personal.url}/api/personal_contacts?${credentials}`;
	const wrong = credentials.replace(/api_key=.*/, 'api_key=wrong');
	const someCompany = () => Math.ceil(Math.random() * 100);
	const contact = () => {
		const chat = Math.ceil(Math.random() * 5000);
		return JSON.stringify({
			chat_id: chat,
			username: `user${chat}`,
			name: `Name ${Date.now()}`,
			birth_date: '1990-05-17',
		});
	};
	const etags = new Map<string, string>();

	const get = (url: string) => exchange(agent, url, 'GET', {}, undefined, () => undefined);
	const post = (url: string, body: string) =>
		exchange(agent, url, 'POST', { 'content-type': 'application/json' }, body, () => undefined);
	const getAgain = (url: string) => {
		const etag = etags.get(url);
		return exchange(agent, url, 'GET', etag === undefined ? {} : { 'if-none-match': etag }, undefined, (tag) =>
			etags.set(url, tag),
		);
	};
	const head = (url: string) => `${url.slice(new URL(url).origin.length)} HTTP/1.1\r\nHost: soak\r\n`;

	const kinds: Kind[] = [
		{ name: 'upsert', share: 35, expected: [200], send: () => post(save, contact()) },
		{ name: 'filtered list', share: 20, expected: [200], send: () => get(`${list}&company_id=${someCompany()}`) },
		{
			name: 'list asked for again',
			share: 20,
			expected: [200, 304],
			send: () => getAgain(`${list}&company_id=${someCompany()}`),
		},
		{ name: 'full list', share: 4, expected: [200], send: () => get(list) },
		{ name: 'full list asked for again', share: 4, expected: [200, 304], send: () => getAgain(list) },
		{ name: 'list with a wrong key', share: 3, expected: [401], send: () => get(list.replace(credentials, wrong)) },
		{
			name: 'upsert with a wrong key',
			share: 3,
			expected: [401],
			send: () => post(save.replace(credentials, wrong), contact()),
		},
		{ name: 'wrong company_id', share: 2, expected: [400], send: () => get(`${list}&company_id=01`) },
		{ name: 'wrong body', share: 2, expected: [400], send: () => post(save, '{"chat_id":"1"}') },
		{ name: 'body that is no JSON', share: 1, expected: [400], send: () => post(save, '{') },
		{ name: 'unknown path', share: 1, expected: [404], send: () => get(`${company.url}/unknown`) },
		{ name: 'other method', share: 1, expected: [405], send: () => post(list, '{}') },
		{ name: 'connection without a request', share: 1, expected: ['dropped'], send: () => drop(personal.url, '') },
		{
			name: 'dropped in the headers',
			share: 1,
			expected: ['dropped'],
			send: () => drop(company.url, `GET ${head(list)}X-Half:`),
		},
		{
			name: 'dropped in the body',
			share: 1,
			expected: ['dropped'],
			send: () =>
				drop(
					personal.url,
					`POST ${head(save)}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"chat_id":`,
				),
		},
		{
			name: 'dropped while the answer came',
			share: 1,
			expected: ['dropped'],
			send: () => drop(company.url, `GET ${head(list)}\r\n`, true),
		},
	];
	return { kinds, close: () => agent.destroy() };
}

function exchange(
	agent: Agent,
	url: string,
	method: string,
	headers: Record<string, string>,
	body: string | undefined,
	onEtag: (etag: string) => void,
): Promise<Outcome> {
	return new Promise((resolve) => {
		const failed = (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message);
		const asked = request(url, { agent, method, headers, timeout: limit }, (answer) => {
			if (answer.headers.etag !== undefined) onEtag(answer.headers.etag);
			answer.resume();
			answer.on('end', () => resolve(answer.statusCode ?? 0)).on('error', failed);
		});
		asked.on('error', failed);
		asked.on('timeout', () => asked.destroy(Object.assign(new Error('no answer'), { code: 'TIMEOUT' })));
		asked.end(body);
	});
}

/** Sends a request and disconnects, either after the first part of the response or as soon as the request is sent. */
function drop(url: string, text: string, afterAnswer = false): Promise<Outcome> {
	const { hostname, port } = new URL(url);
	return new Promise((resolve) => {
		const socket = connect({ host: hostname, port: Number(port), timeout: limit });
		const leave = () => {
			socket.resetAndDestroy();
			resolve('dropped');
		};
		socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
		socket.on('timeout', () => {
			socket.destroy();
			resolve('TIMEOUT');
		});
		socket.on('connect', () => {
			if (afterAnswer) socket.once('data', leave);
			if (text === '') leave();
			else socket.write(text, () => afterAnswer || leave());
		});
	});
}
