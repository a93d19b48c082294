import { Agent, request } from 'node:http';

/** A response as it came over the wire. */
export interface Sample {
	status: number;
	/** Names and values in turn, as they were sent. */
	rawHeaders: string[];
	body: Buffer;
}

interface RequestLine {
	url: string;
	method?: string;
	headers?: Record<string, string>;
	body?: string;
	/** Its connections. Default: a new one, which is closed afterwards. */
	agent?: Agent;
}

/** Sends one request. */
export function takeSample({ url, method = 'GET', headers = {}, body, agent: given }: RequestLine): Promise<Sample> {
	return new Promise((resolve, reject) => {
		// As the generator does. Otherwise the request has `Connection: close`, and the response too.
		const agent = given ?? new Agent({ keepAlive: true });
		const sent = request(url, { method, headers, agent }, (response) => {
			const chunks: Buffer[] = [];
			response.on('data', (chunk: Buffer) => chunks.push(chunk));
			response.on('error', reject);
			response.on('end', () => {
				if (given === undefined) agent.destroy();
				resolve({ status: response.statusCode ?? 0, rawHeaders: response.rawHeaders, body: Buffer.concat(chunks) });
			});
		});
		sent.setTimeout(30_000, () => sent.destroy(new Error(`${method} got no response within 30 s`)));
		sent.on('error', reject);
		sent.end(body);
	});
}

/** The value of a header, by its name in lower case. */
export function headerOf({ rawHeaders }: Sample, name: string): string | undefined {
	const place = rawHeaders.findIndex((text, index) => index % 2 === 0 && text.toLowerCase() === name);
	return place < 0 ? undefined : rawHeaders[place + 1];
}
