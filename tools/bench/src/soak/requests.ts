import { connect } from 'node:net';

/** A status, `dropped` where this client disconnected on purpose, or an error code. */
export type Outcome = number | string;

/** A kind of request that services get in production. */
export interface Kind {
	/** The share of this kind, in percent. */
	share: number;
	name: string;
	expected: readonly Outcome[];
	send(): Promise<Outcome>;
}

interface Targets {
	companyUrl: string;
	personalUrl: string;
	/** The query string with the credentials for both services. */
	credentials: string;
	/** Companies have the IDs from 1 to this. */
	companies: number;
}

const maxMs = 10_000;

/** Every kind of request, in its usual share. */
export function requestKinds({ companyUrl, personalUrl, credentials, companies }: Targets): Kind[] {
	const list = `${companyUrl}/api/company_contacts.list?${credentials}`;
	const save = `${personalUrl}/api/personal_contacts?${credentials}`;
	const wrong = (url: string) => url.replace(/api_key=.*/, 'api_key=wrong');
	const ofCompany = () => `${list}&company_id=${Math.ceil(Math.random() * companies)}`;
	const contact = () => {
		const chat_id = Math.ceil(Math.random() * 5000);
		return JSON.stringify({
			chat_id,
			username: `user${chat_id}`,
			name: `Name ${Date.now()}`,
			birth_date: '1990-05-17',
		});
	};
	const etags = new Map<string, string>();

	async function exchange(url: string, init: RequestInit = {}): Promise<Outcome> {
		try {
			const response = await fetch(url, { ...init, signal: AbortSignal.timeout(maxMs) });
			await response.arrayBuffer();
			const etag = response.headers.get('etag');
			if (etag !== null) etags.set(url, etag);
			return response.status;
		} catch (error) {
			const { name, cause } = error as Error & { cause?: { code?: string } };
			return cause?.code ?? name;
		}
	}
	const getAgain = (url: string) => {
		const etag = etags.get(url);
		return exchange(url, etag === undefined ? {} : { headers: { 'if-none-match': etag } });
	};
	const headers = { 'content-type': 'application/json' };
	const post = (url: string, body: string) => exchange(url, { method: 'POST', headers, body });
	const head = (url: string) => `${url.slice(new URL(url).origin.length)} HTTP/1.1\r\nHost: soak\r\n`;
	const halfBody = 'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"chat_id":';

	const kinds: [share: number, name: string, expected: Outcome[], send: () => Promise<Outcome>][] = [
		[35, 'upsert', [200], () => post(save, contact())],
		[20, 'filtered list', [200], () => exchange(ofCompany())],
		[20, 'filtered list again', [200, 304], () => getAgain(ofCompany())],
		[4, 'full list', [200], () => exchange(list)],
		[4, 'full list again', [200, 304], () => getAgain(list)],
		[3, 'list with a wrong key', [401], () => exchange(wrong(list))],
		[3, 'upsert with a wrong key', [401], () => post(wrong(save), contact())],
		[2, 'wrong company_id', [400], () => exchange(`${list}&company_id=01`)],
		[2, 'wrong body', [400], () => post(save, '{"chat_id":"1"}')],
		[1, 'body that is no JSON', [400], () => post(save, '{')],
		[1, 'unknown path', [404], () => exchange(`${companyUrl}/unknown`)],
		[1, 'other method', [405], () => post(list, '{}')],
		[1, 'connection without a request', ['dropped'], () => drop(personalUrl, '')],
		[1, 'dropped in the headers', ['dropped'], () => drop(companyUrl, `GET ${head(list)}X-Half:`)],
		[1, 'dropped in the body', ['dropped'], () => drop(personalUrl, `POST ${head(save)}${halfBody}`)],
		[1, 'dropped in the response', ['dropped'], () => drop(companyUrl, `GET ${head(list)}\r\n`, true)],
	];
	return kinds.map(([share, name, expected, send]) => ({ share, name, expected, send }));
}

/** Sends a request and disconnects, either after the first part of the response or as soon as the request is sent. */
function drop(url: string, text: string, afterResponse = false): Promise<Outcome> {
	const { hostname, port } = new URL(url);
	return new Promise((resolve) => {
		const socket = connect({ host: hostname, port: Number(port), timeout: maxMs });
		const leave = () => {
			socket.resetAndDestroy();
			resolve('dropped');
		};
		socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
		socket.on('timeout', () => {
			socket.destroy();
			resolve('TimeoutError');
		});
		socket.on('connect', () => {
			if (afterResponse) socket.once('data', leave);
			if (text === '') leave();
			else socket.write(text, () => afterResponse || leave());
		});
	});
}
