import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
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

export interface Scripted {
	status: number;
	headers?: Record<string, string>;
	body?: string;
}
type Step = Scripted | ((request: IncomingMessage, response: ServerResponse) => void);

export const json = (body: unknown): Scripted => ({
	status: 200,
	headers: { 'content-type': 'application/json' },
	body: JSON.stringify(body),
});
export const problem = (status: number, code: string, headers: Record<string, string> = {}, more = {}): Scripted => ({
	...json({ type: '/docs#errors', title: 'T', status, detail: 'Fixed text.', code, request_id: 'id', ...more }),
	status,
	headers: { 'content-type': 'application/problem+json', ...headers },
});

/** A server that responds as scripted, like a misbehaving network or service. It repeats the last step for ever. */
export async function startServer(...steps: Step[]) {
	const asked: { url: URL; body: string; at: number }[] = [];
	const server = createServer(async (request, response) => {
		const url = new URL(String(request.url), 'http://server');
		asked.push({ url, body: await text(request), at: performance.now() });
		const step = steps[Math.min(asked.length, steps.length) - 1] ?? { status: 500 };
		if (typeof step === 'function') step(request, response);
		else response.writeHead(step.status, step.headers).end(step.body);
	}).listen(0, '127.0.0.1');
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
