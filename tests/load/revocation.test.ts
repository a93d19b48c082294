import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { watchDelays } from '@contacts/testing/machine-delays.js';
import { revokeKey } from '@contacts/testing/projects.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';

let services: RunningService[];

test.beforeAll(async () => {
	const env = {
		DATABASE_URL: urlAs(database.url, 'company-contacts', rolePassword),
		RATE_LIMIT_PER_SECOND: '100000',
		RATE_LIMIT_BURST: '100000',
	};
	services = await Promise.all([1, 2, 3].map(() => startService('company-contacts', env)));
});
afterAll(() => Promise.all((services ?? []).map((service) => service.stop())));

const list = ({ url }: RunningService, project: string) =>
	fetch(`${url}/api/company_contacts.list?company_id=1&project=${project}&api_key=${project}-key`);

/** Sends requests to a service without pause. @returns when the last 200 came, in milliseconds after `since` */
async function lastSuccess(service: RunningService, project: string, since: () => number): Promise<number> {
	let last = Number.NEGATIVE_INFINITY;
	for (let refused = 0; refused < 20; ) {
		const response = await list(service, project);
		await response.arrayBuffer();
		if (response.status === 200) last = performance.now();
		else if (response.status === 401) refused++;
	}
	return last - since();
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
	for (let round = 0; round < 5; round++) {
		const project = `round-${round}-${when.length}`;
		await addProject(database.sql, project, `${project}-key`);
		for (const service of services) await expect.poll(async () => (await list(service, project)).status).toBe(200);
		const watches = services.map(({ pid }) => watchDelays(() => database.sql`select 1`, pid));
		let revoked = Number.POSITIVE_INFINITY;
		const last = Promise.all(services.map((service) => lastSuccess(service, project, () => revoked)));
		const [key] = await database.sql<{ id: number }[]>`
			select k.id::int from api_keys k join projects p on p.id = k.project_id where p.code = ${project}`;
		await disturb();
		await revokeKey(database.sql, key?.id ?? 0);
		revoked = performance.now();
		const times = await last;
		console.log(
			`${when}: the last 200 came ${times.map((time) => time.toFixed(0)).join(', ')} ms after the revocation`,
		);
		for (const [index, time] of times.entries()) {
			const machine = await watches[index]?.();
			expect(time - (machine?.during(revoked, revoked + time) ?? 0)).toBeLessThan(1000);
		}
	}
});
