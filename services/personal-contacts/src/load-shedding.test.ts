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
	app = await startTestApp(service, database.url, { clock: () => now });
});
afterAll(() => app?.close());

const upsert = (key = 'good-key') =>
	app.fetch(`/api/personal_contacts?project=good&api_key=${key}`, {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify({ chat_id: chatId++ }),
	});

const waiting = async () => Number(/^upserts_waiting (\d+)$/m.exec(await app.registry.metrics())?.[1]);

/** Requests that wait until they are let go. */
async function hold(count: number): Promise<{ answers: Promise<Response>[]; letGo: () => Promise<void> }> {
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
	const answers = Array.from({ length: count }, () => upsert());
	await expect.poll(waiting).toBe(count);
	return { answers, letGo };
}
const statuses = async (answers: Promise<Response>[]) =>
	new Set((await Promise.all(answers)).map(({ status }) => status));

test('while nothing is answered, what comes after the first fifty is refused at once, and served again after it', async () => {
	const { answers, letGo } = await hold(60);
	now += 300;
	const refused = await upsert();
	expect(refused.headers.get('retry-after')).toBe('1');
	await expectProblem(refused, 503, 'overloaded');
	// It costs nothing to be refused: not even the key is looked at.
	await expectProblem(await upsert('wrong'), 503, 'overloaded');
	expect((await app.fetch('/health/live')).status).toBe(200);
	expect((await app.fetch('/metrics')).status).toBe(200);
	expect((await app.fetch('/unknown')).status).toBe(404);
	await letGo();
	expect(await statuses(answers)).toEqual(new Set([200]));
	expect((await upsert()).status).toBe(200);
});

test('as many as were answered within the last half of a second may wait', async () => {
	const first = await hold(80);
	now += 300;
	await first.letGo();
	expect(await statuses(first.answers)).toEqual(new Set([200]));
	const second = await hold(70);
	now += 300;
	second.answers.push(upsert());
	await expect.poll(waiting).toBe(71);
	// Those were answered too long ago by now.
	now += 300;
	await expectProblem(await upsert(), 503, 'overloaded');
	await second.letGo();
	expect(await statuses(second.answers)).toEqual(new Set([200]));
});

test('a moment of waiting is no queue, whatever was long ago', async () => {
	now += 1000;
	const { answers, letGo } = await hold(200);
	now += 100;
	answers.push(upsert());
	await letGo();
	expect(await statuses(answers)).toEqual(new Set([200]));
});
