import { expect } from 'vitest';

export interface ProblemBody {
	type: string;
	title: string;
	status: number;
	detail: string;
	code: string;
	request_id: string;
	errors?: { field: string; message: string }[];
}

export function expectCommonHeaders(response: Response, cacheControl = /^(no-store|private, no-cache)$/): void {
	expect(response.headers.get('referrer-policy')).toBe('no-referrer');
	expect(response.headers.get('x-content-type-options')).toBe('nosniff');
	expect(response.headers.get('cache-control')).toMatch(cacheControl);
}

/** The common format of every error. */
export async function expectProblem(response: Response, status: number, code: string): Promise<ProblemBody> {
	expect(response.status).toBe(status);
	expect(response.headers.get('content-type')).toBe('application/problem+json');
	expect(response.headers.get('cache-control')).toBe('no-store');
	expectCommonHeaders(response);
	const body = (await response.json()) as ProblemBody;
	expectProblemBody(body, status, code);
	expect(body.request_id).toBe(response.headers.get('x-request-id'));
	return body;
}

export function expectProblemBody(body: ProblemBody, status: number, code: string): void {
	const { errors, ...rest } = body;
	expect(rest).toEqual({
		type: '/docs#errors',
		title: expect.stringMatching(/^[A-Z]/),
		status,
		detail: expect.stringMatching(/\.$/),
		code,
		// A service makes a UUID, nginx the same digits without hyphens.
		request_id: expect.stringMatching(/^([0-9a-f-]{36}|[0-9a-f]{32})$/),
	});
	if (errors !== undefined) {
		expect(errors.length).toBeGreaterThan(0);
		for (const error of errors)
			expect(error).toEqual({
				field: expect.stringMatching(/^[a-z_.]+$/),
				message: expect.stringMatching(/^(must|is) /),
			});
	}
}
