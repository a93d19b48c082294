import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { serverUrl } from '../testing/database.js';
import { createClient } from './client.js';

/** The queue of postgres.js, which patches/ repairs. It is no public part of the package: only its file can be imported. */
interface Queue {
	readonly length: number;
	push(item: unknown): unknown;
	shift(): unknown;
	remove(item: unknown): unknown;
}

// `require` is given the CommonJS build; the one that is imported lies beside it.
const build = createRequire(import.meta.url).resolve('postgres');
const builds = {
	'src/queue.js': resolve(build, '../../../src/queue.js'),
	'cjs/src/queue.js': resolve(build, '../queue.js'),
};

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const usedBytes = () => {
	collectGarbage();
	return process.memoryUsage().heapUsed;
};

describe.each(Object.entries(builds))('%s', (_, file) => {
	let createQueue: (initial?: unknown[]) => Queue;
	beforeAll(async () => {
		({ default: createQueue } = await import(file));
	});

	test('a queue that never runs empty forgets what was taken from it', () => {
		const queue = createQueue();
		for (let item = 0; item < 200; item++) queue.push(item);
		const before = usedBytes();
		for (let item = 200; item < 1_000_000; item++) {
			queue.push(item);
			queue.shift();
		}
		// A slot takes 8 bytes: unrepaired these are 8 million and more.
		expect(usedBytes() - before).toBeLessThan(1_000_000);
		expect(queue.length).toBe(200);
	});

	test('it stays in order through any mixture of push, shift and remove', () => {
		const queue = createQueue();
		const model: number[] = [];
		let random = 1;
		const next = (limit: number) => {
			random = (random * 48_271) % 2_147_483_647;
			return random % limit;
		};
		for (let item = 0; item < 10_000; item++) {
			queue.push(item);
			model.push(item);
			if (next(8) > 0) expect(queue.shift()).toBe(model.shift());
			if (next(3) === 0) {
				const taken = next(item + 1);
				const at = model.indexOf(taken);
				expect(queue.remove(taken)).toBe(at === -1 ? null : taken);
				if (at !== -1) model.splice(at, 1);
			}
			if (item % 5_000 === 4_999) while (model.length > 0) expect(queue.shift()).toBe(model.shift());
			expect(queue.length).toBe(model.length);
		}
	});
});

test('in a pool that has been saturated all the time, giving up a statement searches only those that wait', async () => {
	const sql = createClient({ url: serverUrl('postgres'), applicationName: 'saturated', poolSize: 2 });
	onTestFinished(() => sql.end());

	/** Gives up a statement that waits; tells how long the list is in which it is looked for. */
	const giveUp = async () => {
		const statement = sql`select 1`.execute();
		await Promise.resolve();
		const search = vi.spyOn(Array.prototype, 'indexOf');
		statement.cancel();
		const lengths = search.mock.contexts.map((list) => (list as unknown[]).length);
		search.mockRestore();
		await expect(statement).rejects.toMatchObject({ code: '57014' });
		return Math.max(...lengths);
	};
	let given = 0;
	let searched = 0;
	const caller = async () => {
		while (given < 30_000) {
			if (++given === 29_000) searched = await giveUp();
			await sql`select 1`;
		}
	};
	await Promise.all(Array.from({ length: 200 }, caller));
	expect(searched).toBeGreaterThan(100);
	expect(searched).toBeLessThan(5_000);
});
