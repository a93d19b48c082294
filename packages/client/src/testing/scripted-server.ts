import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { inspect } from 'node:util';
import { expect, onTestFinished } from 'vitest';
import {
	type ClientOptions,
	type ContactsConnectionError,
	type ContactsError,
	createCompanyContactsClient,
	createPersonalContactsClient,
} from '../index.js';

/** Tests search all printed output for this key. */
export const key = 'canary 4711/ü';
export const problem = (status: number, code: string, headers: Record<string, string> = {}) => ({
	status,
	headers: { 'content-type': 'application/problem+json', 'x-request-id': 'id', ...headers },
	body: JSON.stringify({ type: '/docs#errors', title: 'T', status, detail: 'Fixed text.', code, request_id: 'id' }),
});
export const list = (names: string[], headers: Record<string, string> = {}) => ({
	status: 200,
	headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
	body: JSON.stringify({ count: names.length, data: names.map((name, index) => ({ id: index + 1, name })) }),
});

export interface Scripted {
	status: number;
	headers?: Record<string, string>;
	body?: string;
}
type Step = Scripted | ((request: IncomingMessage, response: ServerResponse) => void);

interface Asked {
	method: string | undefined;
	url: URL;
	body: string;
	at: number;
}

/** A server that responds as scripted, like a misbehaving network or service. It repeats the last step for ever. */
export async function startServer(...steps: Step[]) {
	const asked: Asked[] = [];
	const listener: RequestListener = async (request, response) => {
		const url = new URL(String(request.url), 'http://server');
		const body = await text(request);
		asked.push({ method: request.method, url, body, at: performance.now() });
		const step = steps[Math.min(asked.length, steps.length) - 1] ?? { status: 500 };
		if (typeof step === 'function') step(request, response);
		else response.writeHead(step.status, step.headers).end(step.body);
	};
	const server = createServer(listener).listen(0, '127.0.0.1');
	onTestFinished(() => {
		server.closeAllConnections();
		server.close();
	});
	await once(server, 'listening');
	const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
	const options: ClientOptions = { baseUrl, project: 'partner', apiKey: key };
	return {
		asked,
		options,
		company: createCompanyContactsClient(options),
		personal: createPersonalContactsClient(options),
	};
}

/** The address of a server that has closed. */
export async function closedServer(): Promise<AddressInfo> {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const address = server.address() as AddressInfo;
	server.close();
	await once(server, 'close');
	return address;
}

/** Returns the error that was thrown, after a check that nothing printed of it contains the key. */
export async function failureOf(call: Promise<unknown>): Promise<ContactsError & ContactsConnectionError> {
	const error = await call.then(
		() => expect.fail('it succeeded'),
		(reason: unknown) => reason,
	);
	const printed = inspect(error, { depth: 20, showHidden: true }) + JSON.stringify(error) + (error as Error).stack;
	for (const form of [key, 'canary', encodeURIComponent(key)]) expect(printed).not.toContain(form);
	return error as ContactsError & ContactsConnectionError;
}
