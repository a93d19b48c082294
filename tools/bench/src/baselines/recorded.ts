import { get } from 'node:http';
import { buffer } from 'node:stream/consumers';

export interface Recorded {
	status: number;
	/** Names and values in turn, but for those that Node.js adds by itself. */
	headers: string[];
	body: Buffer;
}

const { SERVICE_URL } = process.env;

/** Headers that Node.js adds itself, and those of the connection. */
const ownHeaders = ['date', 'connection', 'keep-alive', 'transfer-encoding', 'content-length'];

const recorded = new Map<string, Recorded>();

/** The response of the service to a URL, which is requested from it once. */
export async function recordedResponse(url: string): Promise<Recorded> {
	return recorded.get(url) ?? (await record(url));
}

function record(url: string): Promise<Recorded> {
	return new Promise((resolve, reject) => {
		get(SERVICE_URL + url, { agent: false }, async (response) => {
			const body = await buffer(response);
			const { statusCode: status = 0, rawHeaders } = response;
			const headers = rawHeaders.flatMap((name, index) =>
				index % 2 === 1 || ownHeaders.includes(name.toLowerCase()) ? [] : [name, rawHeaders[index + 1] ?? ''],
			);
			const kept = { status, headers: [...headers, 'content-length', String(body.length)], body };
			recorded.set(url, kept);
			resolve(kept);
		}).on('error', reject);
	});
}
