import { expect, test } from 'vitest';
import type { ChangesPage, CopyStore } from './index.js';
import { failureOf, json, problem, startServer } from './testing/scripted-server.js';

const page = (ids: number[], cursor: string, more = false) =>
	json({
		changes: ids.map((id) => ({ deleted: id < 0, contact: { id: Math.abs(id), bitrix_id: 100 + Math.abs(id) } })),
		cursor,
		has_more: more,
	});
const cursorsOf = (asked: { url: URL }[]) => asked.map(({ url }) => url.searchParams.get('cursor'));

/** A copy in memory. */
function createStore(state: { cursor?: string; ids: number[] } = { ids: [] }) {
	const store: CopyStore = {
		readCursor: () => state.cursor,
		apply({ changes, cursor, reset }) {
			const ids = new Set(reset ? [] : state.ids);
			for (const { deleted, contact } of changes) ids[deleted ? 'delete' : 'add'](contact.id);
			Object.assign(state, { cursor, ids: [...ids] });
		},
	};
	return { state, store };
}

test('changes() yields one page after the other until no more changes exist, each when the caller reads it', async () => {
	const { asked, company } = await startServer(page([1, 2], 'a', true), page([-1], 'b'));
	const pages: [number, ChangesPage][] = [];
	for await (const each of company.changes({ limit: 2 })) pages.push([asked.length, each]);
	const change = (deleted: boolean, id: number) => ({ deleted, contact: { id, bitrix_id: 100 + id } });
	expect(pages).toEqual([
		[1, { changes: [change(false, 1), change(false, 2)], cursor: 'a', hasMore: true }],
		[2, { changes: [change(true, 1)], cursor: 'b', hasMore: false }],
	]);
	expect(cursorsOf(asked)).toEqual([null, 'a']);
	expect(asked[1]?.url.searchParams.get('limit')).toBe('2');
});

test('an abort ends the iteration, also between two pages', async () => {
	const { asked, company } = await startServer(page([1], 'a', true));
	const giveUp = new AbortController();
	const read = async () => {
		for await (const _ of company.changes({ signal: giveUp.signal })) giveUp.abort('no longer needed');
	};
	await expect(read()).rejects.toBe('no longer needed');
	expect(asked).toHaveLength(1);
});

test('an expired cursor fails with the code cursor_expired', async () => {
	const { company } = await startServer(problem(410, 'cursor_expired'));
	const error = await failureOf(company.changes({ cursor: 'old' }).next());
	expect([error.status, error.code]).toEqual([410, 'cursor_expired']);
});

test('keepCopy() starts with all contacts, then continues from the stored cursor', async () => {
	const { asked, company } = await startServer(page([1, 2], 'a', true), page([3], 'b'), page([-2, 4], 'c'));
	const { state, store } = createStore();
	expect(await company.keepCopy(store)).toBe(3);
	expect(await company.keepCopy(store)).toBe(2);
	expect(state).toEqual({ cursor: 'c', ids: [1, 3, 4] });
	expect(cursorsOf(asked)).toEqual([null, 'a', 'b']);
});

test('keepCopy() continues after a failure with the first page that was not stored', async () => {
	const refused = problem(401, 'unauthorized');
	const { asked, company } = await startServer(page([1], 'a', true), refused, page([2], 'b'));
	const { state, store } = createStore();
	expect((await failureOf(company.keepCopy(store))).code).toBe('unauthorized');
	await company.keepCopy(store);
	expect(state).toEqual({ cursor: 'b', ids: [1, 2] });
	expect(cursorsOf(asked)).toEqual([null, 'a', 'a']);
});

test.each([
	['has expired', problem(410, 'cursor_expired')],
	['is of another project', problem(400, 'invalid_query', {}, { errors: [{ field: 'cursor', message: 'must be' }] })],
])('keepCopy() starts over with an empty copy when the cursor %s, also between two pages', async (_, refused) => {
	const { company } = await startServer(page([8], 'x', true), refused, page([1], 'a', true), page([2], 'b'));
	const { state, store } = createStore({ cursor: 'old', ids: [7] });
	await company.keepCopy(store);
	expect(state).toEqual({ cursor: 'b', ids: [1, 2] });
});

test('an error of the store ends keepCopy() and reaches the caller', async () => {
	const { asked, company } = await startServer(page([1], 'a', true));
	const full = new Error('disk full');
	const store: CopyStore = { readCursor: () => undefined, apply: () => Promise.reject(full) };
	await expect(company.keepCopy(store)).rejects.toBe(full);
	expect(asked).toHaveLength(1);
});
