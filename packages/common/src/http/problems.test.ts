import { expect, onTestFinished, test } from 'vitest';
import { createLogger } from '../observability/logger.js';
import { createServer } from './server.js';

test('an error that nobody expected is a 500 which tells nothing of it, and the log has it under the same ID', async () => {
	const lines: string[] = [];
	const destination = { write: (line: string) => void lines.push(line) };
	const server = await createServer({ logger: createLogger({ name: 'test', level: 'info', destination }) });
	onTestFinished(() => server.close());
	server.get('/fails', async () => {
		throw new TypeError('contacts of Carter are no array');
	});
	const response = await server.inject('/fails');
	expect(response.statusCode).toBe(500);
	const id = response.headers['x-request-id'];
	expect(response.json()).toEqual({
		type: '/docs#errors',
		title: 'Internal Server Error',
		status: 500,
		detail: 'The service failed. Quote "request_id" when you report it.',
		code: 'internal_error',
		request_id: id,
	});
	expect(lines.map((line) => JSON.parse(line))).toContainEqual(
		expect.objectContaining({
			msg: 'internal_error',
			request_id: id,
			err: expect.objectContaining({ type: 'TypeError', message: 'contacts of Carter are no array' }),
		}),
	);
});
