import type { IncomingMessage } from 'node:http';
import { isMap, type Params } from './php-values.js';

/** A request as the portal understands it. */
export interface IncomingCall {
	userId: string;
	secret: string;
	method: string;
	params: Params;
}

/** /rest/USER/SECRET/METHOD, with or without .json [DOC]; undefined for any other address. */
const restPath = /^\/rest(?:\/(\d+)\/([^/]+))?(?:\/([^/]*))?\/?$/;

/** Reads the method and its parameters: JSON, or names and values in a form or a query string. Undefined where the address is no REST call. */
export async function readRequest(request: IncomingMessage): Promise<IncomingCall | undefined> {
	const url = new URL(request.url ?? '/', 'http://portal');
	const body = await readBody(request);
	const match = restPath.exec(url.pathname);
	if (match === null) return undefined;
	const [, userId = '', secret = '', method = ''] = match;
	return {
		userId,
		secret,
		method: decodeURIComponent(method).replace(/\.json$/, ''),
		// [INF] The body goes before the address.
		params: { ...Object.fromEntries(url.searchParams), ...readParams(body, request.headers['content-type'] ?? '') },
	};
}

async function readBody(request: IncomingMessage): Promise<string> {
	const chunks: Buffer[] = [];
	for await (const chunk of request) chunks.push(chunk as Buffer);
	return Buffer.concat(chunks).toString('utf8');
}

/** [INF] What is no JSON though it says so is no parameters at all, and no error. */
function readParams(body: string, contentType: string): Params {
	if (!contentType.toLowerCase().startsWith('application/json')) return Object.fromEntries(new URLSearchParams(body));
	try {
		const value: unknown = JSON.parse(body);
		return isMap(value) ? value : {};
	} catch {
		return {};
	}
}
