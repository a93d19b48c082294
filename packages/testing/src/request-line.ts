import { expect } from 'vitest';
import type { TestApp } from './app.js';

/** Returns the line that the log has for the request with this ID. */
export async function requestLine({ log }: TestApp, id: string | null | undefined): Promise<Record<string, unknown>> {
	const lines = () =>
		log.map((line) => JSON.parse(line)).filter(({ msg, request_id }) => msg === 'request' && request_id === id);
	await expect.poll(lines).toHaveLength(1);
	return lines()[0];
}
