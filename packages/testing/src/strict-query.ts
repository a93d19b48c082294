import { describe, expect, test } from 'vitest';
import type { Contract } from './endpoint.js';
import { expectProblem } from './expect-problem.js';

export interface StrictQueryOptions extends Omit<Contract, 'withApp'> {
	/** Credentials of a project whose key is `100%`, without the key. */
	percent: string;
}

/** The guarantees of both services for queries: no part of a query is silently ignored. */
export function describeStrictQuery({ app, endpoint, request, good, percent }: StrictQueryOptions): void {
	const { parameters = [] } = endpoint;
	const allowed = `must hold no parameters but ${['project', 'api_key', ...parameters].join(', ')}`;
	const notDecodable = 'must be percent-encoded UTF-8';

	describe('400 for a query', () => {
		test.each([
			...['canary=1', 'canary', '=canary', 'Company_id=7', 'companyid=11', 'company_id%20=7', 'API_KEY=canary'],
			...[
				'api_key[]=canary',
				'project.x=canary',
				'__proto__=canary',
				'constructor=canary',
				'can%61ry=1',
				'canary=1&canary=2',
			],
		])('with an unknown parameter, which it does not echo: %s', async (query) => {
			for (const whole of [`${good}&${query}`, `${query}&${good}`]) {
				const response = await request(whole);
				expect(await response.clone().text()).not.toMatch(/canary|companyid|proto|constructor/i);
				const { errors } = await expectProblem(response, 400, 'invalid_query');
				expect(errors).toEqual([{ field: 'query', message: allowed }]);
			}
		});

		test.each([
			'x=%zz',
			'x=%',
			'x=%4',
			'%zz=1',
			'x=%C3',
			'x=%C3&y=%A9',
			'x=%FF',
			'x=%ED%A0%80',
			'x=%C0%AF',
			'x=1&%u0041',
		])('with malformed percent-encoding in another parameter: %s', async (query) => {
			for (const whole of [`${good}&${query}`, `${query}&${good}`, `${percent}&api_key=100%25&${query}`]) {
				const { errors } = await expectProblem(await request(whole), 400, 'invalid_query');
				expect(errors).toEqual([{ field: 'query', message: notDecodable }]);
			}
		});
	});

	describe('401 before 400', () => {
		test.each([
			['an unknown parameter beside a wrong key', 'project=good&api_key=wrong&canary=1'],
			['malformed percent-encoding beside a wrong key', 'project=good&api_key=wrong&x=%zz'],
			['malformed percent-encoding in the key', `${percent}&api_key=100%`],
			['malformed percent-encoding in the key, whose name is escaped', `${percent}&api%5Fkey=100%`],
			['malformed percent-encoding in the project', 'project=good%&api_key=good-key'],
			['malformed percent-encoding in the name of the key', 'project=good&api_key%=good-key'],
		])('%s', async (_, query) => {
			await expectProblem(await request(query), 401, 'unauthorized');
		});

		test('an escaped percent sign is part of the key', async () => {
			expect((await request(`${percent}&api_key=100%25`)).status).toBe(200);
		});
	});

	describe.each(['/health/live', '/health/ready', '/metrics', '/openapi.json', '/docs', '/docs/', '/docs/start.js'])(
		'400 for a query of %s, which has no parameters',
		(path) => {
			test.each([
				['?canary=1', 'must hold no parameters'],
				[`?${good}`, 'must hold no parameters'],
				['?x=%zz', notDecodable],
			])('%s', async (query, message) => {
				const response = await app().fetch(`${path}${query}`);
				expect((await expectProblem(response, 400, 'invalid_query')).errors).toEqual([{ field: 'query', message }]);
			});

			test('405 and 404 take precedence, and an empty query is allowed', async () => {
				await expectProblem(await app().fetch(`${path}?x=%zz`, { method: 'DELETE' }), 405, 'method_not_allowed');
				await expectProblem(await app().fetch(`${path}/nothing?x=%zz`), 404, 'not_found');
				expect((await app().fetch(`${path}?`)).status).toBe(200);
			});
		},
	);
}
