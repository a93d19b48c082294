import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect, onTestFinished } from 'vitest';
import { service } from './app.js';

let app: TestApp;
let now = 0;
let chatId = 1;

test.beforeAll(async () => {
	await addProject(database.sql, 'good', 'good-key');
	app = await startTestApp(service, database.url, { clock: () => now, database: { deadlineMs: 60_000 } });
});
afterAll(() => app?.close());

const upsert = (key = 'good-key', chat = chatId++) =>
	app.fetch(`/api/personal_contacts?project=good&api_key=${key}`, {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify({ chat_id: chat }),
	});

const waiting = async () => Number(/^upserts_waiting (\d+)$/m.exec(await app.registry.metrics())?.[1]);

/** Requests that wait until the test releases them. */
async function hold(count: number): Promise<{ responses: Promise<Response>[]; letGo: () => Promise<void> }> {
	const session = await database.sql.reserve();
	await session`begin`;
	await session`lock table personal_contacts in access exclusive mode`;
	let held = true;
	const letGo = async () => {
		if (!held) return;
		held = false;
		await session`rollback`;
		session.release();
	};
	onTestFinished(letGo);
	// After a pause of the machine the service may refuse some of them. Clients then repeat their requests.
	const untilServed = async (): Promise<Response> => {
		const response = await upsert();
		return response.status === 503 ? untilServed() : response;
	};
	const responses = Array.from({ length: count }, untilServed);
	await expect.poll(waiting).toBe(count);
	return { responses, letGo };
}
const statuses = async (responses: Promise<Response>[]) =>
	new Set((await Promise.all(responses)).map(({ status }) => status));

test('while many upserts have waited for half a second, others are refused at once, and served again later', async () => {
	const { responses, letGo } = await hold(300);
	// Contacts move from batches, which the lock fails, to the queue for a connection.
	await expect
		.poll(() => {
			now += 500;
			return app.database.isFull;
		})
		.toBe(true);
	const refused = await upsert();
	expect(refused.headers.get('retry-after')).toBe('1');
	await expectProblem(refused, 503, 'overloaded');
	// A refusal costs nothing: not even the key is checked.
	await expectProblem(await upsert('wrong'), 503, 'overloaded');
	expect((await app.fetch('/health/live')).status).toBe(200);
	expect((await app.fetch('/metrics')).status).toBe(200);
	expect((await app.fetch('/unknown')).status).toBe(404);
	await letGo();
	expect(await statuses(responses)).toEqual(new Set([200]));
	expect((await upsert()).status).toBe(200);
});

test('one locked row refuses nobody else, however many upserts of its chat wait for it', async () => {
	const chat = chatId++;
	expect((await upsert('good-key', chat)).status).toBe(200);
	const session = await database.sql.reserve();
	await session`begin`;
	await session`select from personal_contacts where chat_id = ${chat} for update`;
	const held = [upsert('good-key', chat)];
	await expect.poll(waiting).toBe(1);
	held.push(...Array.from({ length: 100 }, () => upsert('good-key', chat)));
	await expect.poll(waiting).toBe(101);
	now += 1000;
	for (let n = 0; n < 10; n++) expect((await upsert()).status).toBe(200);
	await session`rollback`;
	session.release();
	expect(await statuses(held)).toEqual(new Set([200]));
});
