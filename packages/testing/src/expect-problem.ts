import { expect } from 'vitest';
import type { ProblemBody } from './app.js';

export function expectCommonHeaders(answer: Response, cacheControl = /^(no-store|private, no-cache)$/): void {
	expect(answer.headers.get('referrer-policy')).toBe('no-referrer');
	expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
	expect(answer.headers.get('cache-control')).toMatch(cacheControl);
}

/** The one shape of every error. */
export async function expectProblem(answer: Response, status: number, code: string): Promise<ProblemBody> {
	expect(answer.status).toBe(status);
	expect(answer.headers.get('content-type')).toBe('application/problem+json');
	expect(answer.headers.get('cache-control')).toBe('no-store');
	expectCommonHeaders(answer);
	const body = (await answer.json()) as ProblemBody;
	expectProblemBody(body, status, code);
	expect(body.request_id).toBe(answer.headers.get('x-request-id'));
	return body;
}

export function expectProblemBody(body: ProblemBody, status: number, code: string): void {
	const { errors, ...rest } = body;
	expect(rest).toEqual({
		type: 'about:blank',
		title: expect.stringMatching(/^[A-Z]/),
		status,
		detail: expect.stringMatching(/\.$/),
		code,
		request_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
	});
	if (errors !== undefined) {
		expect(errors.length).toBeGreaterThan(0);
		for (const error of errors) expect(Object.keys(error)).toEqual(['field', 'message']);
	}
}

export function expectRawProblem(answer: string, status: number, code: string): void {
	expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} [A-Z]`));
	for (const header of [
		'content-type: application/problem\\+json',
		'cache-control: no-store',
		'referrer-policy: no-referrer',
	]) {
		expect(answer).toMatch(new RegExp(`\r\n${header}\r\n`, 'i'));
	}
	expectProblemBody(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)), status, code);
}
