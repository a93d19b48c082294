import { test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { contacts } from '../command.js';
import { startService, urlFor } from '../services.js';

let services: Awaited<ReturnType<typeof startService>>[];

test.beforeAll(async () => {
	services = await Promise.all([startService('personal-contacts'), startService('company-contacts')]);
});
afterAll(() => Promise.all((services ?? []).map((service) => service.stop())));

/** Runs a command of the operator. @returns what it has printed */
async function run(...args: string[]): Promise<string> {
	const { code, out, error } = await contacts(args, { DATABASE_URL: urlFor('operator') });
	expect({ code, error }).toEqual({ code: 0, error: '' });
	return out;
}

/** The statuses of a request to each service. */
const use = (project: string, key: string) =>
	Promise.all(
		services.map(async ({ url }, index) => {
			const query = `project=${project}&api_key=${key}`;
			const response =
				index === 0
					? await fetch(`${url}/api/personal_contacts?${query}`, {
							method: 'POST',
							headers: { 'content-type': 'application/json' },
							body: '{"chat_id":1}',
						})
					: await fetch(`${url}/api/company_contacts.list?${query}`);
			await response.arrayBuffer();
			return response.status;
		}),
	);

test('what a command has done to a key or a project is in force in every process when it ends, ten times of ten', async () => {
	const rounds = Array.from({ length: 10 }, async (_, n) => {
		const project = `acme-${n}`;
		await run('project', 'create', '--no-wait', project);
		const { id, key } = JSON.parse(await run('key', 'create', project, '--json')) as { id: number; key: string };
		const made = await use(project, key);
		await run('project', 'disable', project);
		const disabled = await use(project, key);
		await run('project', 'enable', project);
		const enabled = await use(project, key);
		const rotated = JSON.parse(await run('key', 'rotate', String(id), '--json')) as { key: string };
		const successor = await use(project, rotated.key);
		await run('key', 'revoke', String(id));
		return { made, disabled, enabled, successor, revoked: await use(project, key) };
	});
	const inForce = {
		made: [200, 200],
		disabled: [401, 401],
		enabled: [200, 200],
		successor: [200, 200],
		revoked: [401, 401],
	};
	expect(await Promise.all(rounds)).toEqual(Array(10).fill(inForce));
});
