import { hashKey } from '@contacts/common/auth/api-key.js';
import { insertKey, insertProject } from '@contacts/common/auth/projects.sql.js';
import { startTestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { requestLine } from '@contacts/testing/request-line.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { service } from './app.js';

test('a sandbox project gets a 401, and nothing it sends is stored', async () => {
	await insertProject(database.sql, 'try', true);
	for (const [key, service] of [
		['any', null],
		['own', 'personal-contacts'],
	] as const)
		await insertKey(database.sql, { project: 'try', hash: hashKey(key), service });
	const app = await startTestApp(service, database.url);
	onTestFinished(() => app.close());
	for (const [path, body] of [
		['personal_contacts', '{"chat_id":1}'],
		['direct_subscriptions', '{"chat_id":1,"active":true}'],
	]) {
		for (const key of ['any', 'own']) {
			const headers = { 'content-type': 'application/json' };
			const response = await app.fetch(`/api/${path}?project=try&api_key=${key}`, {
				method: 'POST',
				headers,
				body: body ?? '',
			});
			const { request_id: id } = await expectProblem(response, 401, 'unauthorized');
			expect(await requestLine(app, id)).toMatchObject({ reason: 'sandbox_project' });
		}
	}
	expect(await database.sql`select from personal_contacts`).toHaveLength(0);
	expect(await database.sql`select from direct_subscriptions`).toHaveLength(0);
});
