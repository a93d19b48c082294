import { setImmediate as turn } from 'node:timers/promises';
import { setProjectEnabled } from '@contacts/common/auth/projects.sql.js';
import { service } from '@contacts/company-contacts/app.js';
import { addProject, revokeKeysOf, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { seededRandom } from '@contacts/testing/random.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';

let app: TestApp;

test.beforeAll(async () => {
	for (let index = 0; index < 50; index++) await addProject(database.sql, `filler-${index}`, `filler-key-${index}`);
	await addProject(database.sql, 'live-one', 'key-of-one');
	await addProject(database.sql, 'live-two', 'key-of-two');
	await addProject(database.sql, 'disabled', 'key-of-off');
	await addProject(database.sql, 'not-here', 'key-of-not', { service: 'personal-contacts' });
	await addProject(database.sql, 'expiring', 'key-of-old', { expiresAt: new Date(Date.now() + 3_600_000) });
	await setProjectEnabled(database.sql, 'disabled', false);
	await addProject(database.sql, 'revoking', 'key-of-rev');
	await revokeKeysOf(database.sql, 'revoking');
	// Expired for this app, although it was valid when the keys were loaded.
	const now = Date.now() + 7_200_000;
	app = await startTestApp(service, database.url, {
		now: () => now,
		environment: { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000' },
	});
	await app.poll.refresh(4000);
});
afterAll(() => app?.close());

/** All of the same length: the time to read a key depends on its length, which the client knows. A wrong key is the first. */
const credentials = {
	'a wrong key': ['live-one', 'key-of-xxx'],
	'an unknown project': ['no-such-1', 'key-of-one'],
	'an unknown project and a wrong key': ['no-such-1', 'key-of-xxx'],
	'the key of another project': ['live-one', 'key-of-two'],
	'a disabled project': ['disabled', 'key-of-off'],
	'a key for the other service': ['not-here', 'key-of-not'],
	'a key that has expired': ['expiring', 'key-of-old'],
	'a key that was revoked': ['revoking', 'key-of-rev'],
} as const;
const [, ...others] = Object.keys(credentials);

/**
 * The chance that a measure of the one kind is larger than one of the other (Mann-Whitney's U over the number of pairs): 0.5
 * when they can't be told apart, whatever the machine's speed and however often it is busy with something else; towards 0 or 1
 * when one of them takes longer each time.
 */
function chanceOfLarger(one: readonly number[], other: readonly number[]): number {
	const all = [...one.map((value) => ({ value, mine: true })), ...other.map((value) => ({ value, mine: false }))];
	all.sort((a, b) => a.value - b.value);
	let ranks = 0;
	for (let from = 0; from < all.length; ) {
		let to = from;
		while (to < all.length && all[to]?.value === all[from]?.value) to++;
		// Equal measurements share a rank.
		for (let index = from; index < to; index++) if (all[index]?.mine) ranks += (from + to + 1) / 2;
		from = to;
	}
	return (ranks - (one.length * (one.length + 1)) / 2) / (one.length * other.length);
}

/** Measures one try of each credentials in every round, in random order. @returns the nanoseconds of each, a wrong key first */
async function measure(rounds: number, attempt: (project: string, key: string) => Promise<void> | void) {
	const random = seededRandom();
	const kinds = Object.values(credentials).map(([project, key]) => ({ project, key, times: [] as number[] }));
	for (let round = -rounds / 10; round < rounds; round++) {
		// A process that never yields counts as overloaded.
		if (round % 100 === 0) await turn();
		for (const { project, key, times } of random.shuffled(kinds)) {
			const begun = process.hrtime.bigint();
			const done = attempt(project, key);
			if (done instanceof Promise) await done;
			// The first measurements are slower than all others.
			if (round >= 0) times.push(Number(process.hrtime.bigint() - begun));
		}
	}
	return kinds.map(({ times }) => times) as [number[], ...number[][]];
}

function median(values: readonly number[]): number {
	return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** The result of each of the others, which is shown too. */
function named(results: readonly number[]): [string, number][] {
	const rows = others.map((what, index): [string, number] => [what, results[index] as number]);
	console.log(rows.map(([what, result]) => `${what}: ${result.toFixed(3)}`).join('\n'));
	return rows;
}

test('looking up any wrong credentials takes as long as a wrong key', async () => {
	const [ofWrongKey, ...ofOthers] = await measure(20_000, (project, key) => {
		if (app.keyRing.find(project, key) !== undefined) throw new Error('these credentials are valid');
		app.keyRing.findReason(project, key);
	});
	const ratios = named(ofOthers.map((times) => median(times) / median(ofWrongKey)));
	// Without the hash of the key it would be below 0.5. A look-up takes about a microsecond. How the compiler has arranged the
	// two is some ten nanoseconds of it, and so is an expired entry. The measurement of whole requests shows neither.
	expect(ratios.filter(([, ratio]) => !(ratio > 0.67 && ratio < 1.5))).toEqual([]);
});

test('being refused for any wrong credentials takes as long as for a wrong key', async () => {
	const [ofWrongKey, ...ofOthers] = await measure(1500, async (project, key) => {
		const response = await app.fetch(`/api/company_contacts.list?project=${project}&api_key=${key}`);
		expect(response.status).toBe(401);
		await response.arrayBuffer();
	});
	const chances = named(ofOthers.map((times) => chanceOfLarger(times, ofWrongKey)));
	expect(chances.filter(([, chance]) => !(Math.abs(chance - 0.5) < 0.1))).toEqual([]);
});
