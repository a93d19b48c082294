import { addProject, revokeKeysOf } from '@contacts/testing/app.js';
import { starvedMsOf } from '@contacts/testing/proc.js';
import type { RunningService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { startService } from '../services.js';

let services: RunningService[];

test.beforeAll(async () => {
	const env = {
		RATE_LIMIT_PER_SECOND: '100000',
		RATE_LIMIT_BURST: '100000',
	};
	services = await Promise.all([1, 2, 3].map(() => startService('company-contacts', env)));
});
afterAll(() => Promise.all((services ?? []).map((service) => service.stop())));

const list = ({ url }: RunningService, project: string) =>
	fetch(`${url}/api/company_contacts.list?company_id=1&project=${project}&api_key=${project}-key`);

/** The time now, and for how long the service or its clients could run so far and had no processor, in milliseconds. */
const momentOf = ({ pid }: RunningService) => ({
	at: performance.now(),
	starved: [starvedMsOf(pid), starvedMsOf(process.pid)] as const,
});
type Moment = ReturnType<typeof momentOf>;

/** Milliseconds between them, without those in which the machine let the service or its clients wait. */
const between = (one: Moment, other: Moment) =>
	other.at - one.at - Math.max(...other.starved.map((starved, index) => starved - Number(one.starved[index])));

/** Sends requests to a service without pause, until twenty are refused. @returns when the last 200 came */
async function lastSuccess(service: RunningService, project: string): Promise<Moment> {
	let last = momentOf(service);
	for (let refused = 0; refused < 20; ) {
		const response = await list(service, project);
		await response.arrayBuffer();
		if (response.status === 200) last = momentOf(service);
		else if (response.status === 401) refused++;
	}
	return last;
}

test.each([
	['while all is well', async () => undefined],
	[
		'while the connections of the polls are cut at that moment',
		async () => {
			await database.sql`
				select pg_terminate_backend(pid) from pg_stat_activity
				where datname = current_database() and query like '%key_ring_version%' and pid <> pg_backend_pid()`;
		},
	],
	[
		'while every connection of the services is cut at that moment',
		async () => {
			await database.sql`
				select pg_terminate_backend(pid) from pg_stat_activity
				where datname = current_database() and application_name = 'company-contacts'`;
		},
	],
])('three processes refuse a revoked key within a second, %s', async (when, disturb) => {
	for (let round = 0, passed = 0; passed < 5; round++) {
		// Of ten rounds the machine may spoil five. One is spoiled when most of the time was spent waiting for a processor.
		expect(round).toBeLessThan(10);
		const project = `round-${round}-${when.length}`;
		await addProject(database.sql, project, `${project}-key`);
		for (const service of services) await expect.poll(async () => (await list(service, project)).status).toBe(200);
		const last = Promise.all(services.map((service) => lastSuccess(service, project)));
		await disturb();
		await revokeKeysOf(database.sql, project);
		const revoked = services.map(momentOf);
		const times = (await last).map((moment, index) => ({
			whole: moment.at - Number(revoked[index]?.at),
			own: between(revoked[index] as Moment, moment),
		}));
		const shown = times.map(
			({ whole, own }) => `${whole.toFixed(0)} (${own.toFixed(0)} without delays of the machine)`,
		);
		console.log(`${when}: the last 200 came ${shown.join(', ')} ms after the revocation`);
		const late = times.filter(({ whole }) => whole >= 1000);
		for (const { whole, own } of late) expect(own).toBeLessThan(whole / 2);
		if (late.length === 0) passed++;
	}
});
