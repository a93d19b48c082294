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

const upsert = (key = 'good-key') =>
	app.fetch(`/api/personal_contacts?project=good&api_key=${key}`, {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify({ chat_id: chatId++ }),
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
	const responses = Array.from({ length: count }, () => upsert());
	await expect.poll(waiting).toBe(count);
	return { responses, letGo };
}
const statuses = async (responses: Promise<Response>[]) =>
	new Set((await Promise.all(responses)).map(({ status }) => status));

test('while no response is sent, requests after the first fifty are refused at once, and served again later', async () => {
	const { responses, letGo } = await hold(60);
	now += 300;
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

test('as many requests may wait as were served within the last half second', async () => {
	const first = await hold(80);
	now += 300;
	await first.letGo();
	expect(await statuses(first.responses)).toEqual(new Set([200]));
	const second = await hold(70);
	now += 300;
	second.responses.push(upsert());
	await expect.poll(waiting).toBe(71);
	// Those responses are too long ago by now.
	now += 300;
	await expectProblem(await upsert(), 503, 'overloaded');
	await second.letGo();
	expect(await statuses(second.responses)).toEqual(new Set([200]));
});

test('a short wait is not a queue, whatever happened long ago', async () => {
	now += 1000;
	const { responses, letGo } = await hold(200);
	now += 100;
	responses.push(upsert());
	await letGo();
	expect(await statuses(responses)).toEqual(new Set([200]));
});
