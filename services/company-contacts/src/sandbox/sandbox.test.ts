import { hashKey } from '@contacts/common/auth/api-key.js';
import { insertKey, insertProject } from '@contacts/common/auth/projects.sql.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { expectProblem } from '@contacts/testing/expect-problem.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { service } from '../app.js';
import type { CompanyContact } from '../company-contact.js';
import { firstContacts, laterChanges, type SandboxChange } from './contacts.js';

let app: TestApp;
let others: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', 'partner-key');
	await insertProject(database.sql, 'try', true);
	await insertKey(database.sql, { project: 'try', hash: hashKey('try-key') });
	// With the IDs, companies and phones of the invented contacts.
	await database.sql`
		insert into company_contacts (bitrix_id, phone, company_ids, name)
		select 900000 + n, '+12025550101', array[1, 7, 11, 21], 'Real ' || n from generate_series(1, 200) n`;
	await database.sql`delete from company_contacts where id = 3`;
	app = await startTestApp(service, database.url, { environment: { RATE_LIMIT_BURST: '100000' } });
	// Its lists are too large for memory.
	others = await startTestApp(service, database.url, {
		environment: { RATE_LIMIT_BURST: '100000', LIST_STREAM_MEGABYTES: '0' },
	});
});
afterAll(() => Promise.all([app?.close(), others?.close()]));

type Who = 'try' | 'partner';
const paths = [
	...['', '&company_id=1', '&company_id=7', '&company_id=11', '&company_id=999'].map((query) => `list?${query}`),
	...['', '&limit=1', '&limit=3'].map((query) => `changes?${query}`),
];

const get = (who: Who, path: string, headers: Record<string, string> = {}, on = app) =>
	on.fetch(`/api/company_contacts.${path}&project=${who}&api_key=${who}-key`, { headers });

interface Changes {
	changes: SandboxChange[];
	cursor: string;
	has_more: boolean;
}

/** All pages of the changes, without a cursor. */
async function follow(who: Who, limit?: number): Promise<Changes[]> {
	const pages: Changes[] = [];
	let cursor = '';
	do {
		const response = await get(who, `changes?${cursor}${limit === undefined ? '' : `&limit=${limit}`}`);
		expect(response.status).toBe(200);
		const page = (await response.json()) as Changes;
		pages.push(page);
		cursor = `&cursor=${page.cursor}`;
	} while (pages.at(-1)?.has_more);
	return pages;
}

describe('real and sandbox projects never see each other’s contacts', () => {
	const isOf: Record<Who, RegExp> = { try: /Sandbox|Песочница|サンド/, partner: /Real/ };

	test('in lists and changes, from memory or streamed, by any query', async () => {
		for (const on of [app, others]) {
			const texts: Record<Who, string> = { try: '', partner: '' };
			// One after the other and back: what was made for one is in memory when the other asks.
			for (const path of [...paths, ...paths])
				for (const who of ['try', 'partner'] as const) {
					const response = await get(who, path, {}, on);
					expect([who, path, response.status]).toEqual([who, path, 200]);
					texts[who] += await response.text();
				}
			expect(texts.try).toMatch(isOf.try);
			expect(texts.try).not.toMatch(isOf.partner);
			expect(texts.partner).toMatch(isOf.partner);
			expect(texts.partner).not.toMatch(isOf.try);
		}
	});

	test('a cursor of one is invalid for the other', async () => {
		const [mine, theirs] = await Promise.all([follow('try'), follow('partner')]);
		for (const [who, pages] of [
			['try', theirs],
			['partner', mine],
		] as const) {
			for (const { cursor } of pages)
				await expectProblem(await get(who, `changes?&cursor=${cursor}`), 400, 'invalid_query');
		}
	});

	test('a request of a sandbox project never reads the table', async () => {
		await database.sql`alter table company_contacts rename to hidden`;
		try {
			for (const path of paths) expect((await get('try', path)).status).toBe(200);
			await expectProblem(await get('partner', 'list?&company_id=12'), 500, 'database_error');
		} finally {
			await database.sql`alter table hidden rename to company_contacts`;
		}
	});
});

describe('the invented contacts', () => {
	const list = async (query = '') =>
		(await (await get('try', `list?${query}`)).json()) as { count: number; data: CompanyContact[] };

	test('add up to the list with any limit, with deletions and no contact twice in a response; a company has its own', async () => {
		const { data } = await list();
		expect((await list('&company_id=1')).data.map(({ id }) => id)).toEqual([1, 2, 5]);
		for (const limit of [undefined, 1, 5]) {
			const pages = await follow('try', limit);
			const copy = new Map<number, CompanyContact>();
			for (const { changes } of pages) {
				expect(changes.length).toBeLessThanOrEqual(limit ?? 1000);
				expect(new Set(changes.map(({ contact }) => contact.id)).size).toBe(changes.length);
				for (const change of changes) {
					if (change.deleted) copy.delete(change.contact.id);
					else copy.set(change.contact.id, change.contact);
				}
			}
			expect([...copy.values()].sort((one, other) => one.id - other.id)).toEqual(data);
			const all = pages.flatMap(({ changes }) => changes);
			expect(all).toEqual([...firstContacts, ...laterChanges]);
			const last = String(pages.at(-1)?.cursor);
			const after = await (await get('try', `changes?&cursor=${last}`)).json();
			expect(after).toEqual({ changes: [], cursor: last, has_more: false });
		}
	});
});

test('the errors and the rate limit of a sandbox are those of the real service', async () => {
	for (const path of ['list?&company_id=0', 'list?&x=1', 'changes?&limit=0', 'changes?&cursor=c2FuZGJveCA5OTk'])
		await expectProblem(await get('try', path), 400, 'invalid_query');
	const otherKey = await app.fetch('/api/company_contacts.list?project=try&api_key=partner-key');
	await expectProblem(otherKey, 401, 'unauthorized');
	const limited = await startTestApp(service, database.url, {
		environment: { RATE_LIMIT_BURST: '2', RATE_LIMIT_PER_SECOND: '1' },
		clock: () => 0,
	});
	const first = await get('try', 'list?', {}, limited);
	expect([first.headers.get('ratelimit-limit'), first.headers.get('contacts-synced-at')]).toEqual(['2', null]);
	expect((await get('try', 'changes?', {}, limited)).status).toBe(200);
	await expectProblem(await get('try', 'list?', {}, limited), 429, 'rate_limited');
	expect((await get('partner', 'list?', {}, limited)).status).toBe(200);
	await limited.close();
});
