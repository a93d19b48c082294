import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished, vi } from 'vitest';
import { createLoop } from './testing/loop.js';
import { makeContact } from './testing/portal.js';

test('an incomplete full pass is repeated after ten minutes, not at once', async () => {
	const { standIn, clock, start, close } = await createLoop();
	onTestFinished(close);
	for (let n = 1; n <= 120; n++) standIn.add(makeContact(n));
	standIn.faults.always({ kind: 'empty-list' }, { when: ({ params }) => Number(params.filter?.['>id']) > 40 });
	const begun: number[] = [];
	standIn.onRequest(({ params }) => {
		if (params.filter?.['>id'] === 0) begun.push(clock.now());
	});
	start();
	await vi.waitUntil(() => begun.length >= 4, { timeout: 50_000 });
	const [first = 0, ...others] = begun;
	for (const [index, at] of others.entries()) expect(at - (begun[index] ?? first)).toBeGreaterThanOrEqual(600_000);
	expect(await database.sql`select from company_contacts`).toHaveLength(0);
});
