import { describe, expect, test } from 'vitest';
import type { ChangesPage, CopyStore } from './changes.js';
import { failureOf, problem, type Scripted, startServer } from './testing/scripted-server.js';

const page = (ids: number[], cursor: string, more = false): Scripted => ({
	status: 200,
	headers: { 'content-type': 'application/json; charset=utf-8' },
	body: JSON.stringify({
		changes: ids.map((id) => ({ deleted: id < 0, contact: { id: Math.abs(id), bitrix_id: 100 + Math.abs(id) } })),
		cursor,
		has_more: more,
	}),
});

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

describe('changes()', () => {
	test('yields one page after the other until no more changes exist', async () => {
		const { asked, company } = await startServer(page([1, 2], 'a', true), page([-1], 'b'));
		const pages: ChangesPage[] = [];
		for await (const each of company.changes({ limit: 2 })) pages.push(each);
		expect(pages.map(({ changes, ...rest }) => [changes.map(({ contact }) => contact.id), rest])).toEqual([
			[[1, 2], { cursor: 'a', hasMore: true }],
			[[1], { cursor: 'b', hasMore: false }],
		]);
		expect(asked.map(({ url }) => [url.searchParams.get('cursor'), url.searchParams.get('limit')])).toEqual([
			[null, '2'],
			['a', '2'],
		]);
	});

	test('requests a page only when the caller reads it', async () => {
		const { asked, company } = await startServer(page([1], 'a', true));
		for await (const { cursor } of company.changes({ cursor: 'z' })) {
			expect(cursor).toBe('a');
			break;
		}
		expect(asked.map(({ url }) => url.searchParams.get('cursor'))).toEqual(['z']);
	});

	test('an abort ends the iteration, also between two pages', async () => {
		const { asked, company } = await startServer(page([1], 'a', true));
		const giveUp = new AbortController();
		const reason = new Error('no longer needed');
		const read = async () => {
			for await (const _ of company.changes({ signal: giveUp.signal })) giveUp.abort(reason);
		};
		await expect(read()).rejects.toBe(reason);
		expect(asked).toHaveLength(1);
	});

	test('an expired cursor fails with the code cursor_expired', async () => {
		const { company } = await startServer(problem(410, 'cursor_expired'));
		const error = await failureOf(company.changes({ cursor: 'old' }).next());
		expect([error.status, error.code]).toEqual([410, 'cursor_expired']);
	});
});

describe('keepCopy()', () => {
	test('starts with all contacts, then continues from the stored cursor', async () => {
		const { asked, company } = await startServer(page([1, 2], 'a', true), page([3], 'b'), page([-2, 4], 'c'));
		const { state, store } = createStore();
		expect(await company.keepCopy(store)).toBe(3);
		expect(await company.keepCopy(store)).toBe(2);
		expect(state).toEqual({ cursor: 'c', ids: [1, 3, 4] });
		expect(asked.map(({ url }) => url.searchParams.get('cursor'))).toEqual([null, 'a', 'b']);
	});

	test('after a failure it continues with the first page that was not stored', async () => {
		const refused = problem(401, 'unauthorized');
		const { asked, company } = await startServer(page([1], 'a', true), refused, page([2], 'b'));
		const { state, store } = createStore();
		expect((await failureOf(company.keepCopy(store))).code).toBe('unauthorized');
		await company.keepCopy(store);
		expect(state).toEqual({ cursor: 'b', ids: [1, 2] });
		expect(asked.map(({ url }) => url.searchParams.get('cursor'))).toEqual([null, 'a', 'a']);
	});

	test('an expired cursor, also between two pages, makes it start over with an empty copy', async () => {
		const expired = problem(410, 'cursor_expired');
		const { company } = await startServer(page([8], 'x', true), expired, page([1], 'a', true), page([2], 'b'));
		const { state, store } = createStore({ cursor: 'old', ids: [7] });
		await company.keepCopy(store);
		expect(state).toEqual({ cursor: 'b', ids: [1, 2] });
	});

	test('an error of the store ends it and reaches the caller', async () => {
		const { asked, company } = await startServer(page([1], 'a', true));
		const full = new Error('disk full');
		const store: CopyStore = { readCursor: () => undefined, apply: () => Promise.reject(full) };
		await expect(company.keepCopy(store)).rejects.toBe(full);
		expect(asked).toHaveLength(1);
	});
});
