import { type IncomingMessage, request } from 'node:http';
import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';

const path = '/api/company_contacts.list';
let service: RunningService;
let gateway: RunningNginx;

test.beforeAll(async () => {
	await addProject(database.sql, 'first', 'first-key');
	await database.sql`insert into company_contacts (bitrix_id, name) select n, 'a name' from generate_series(1, 10) n`;
	service = await startService('company-contacts', {
		DATABASE_URL: urlAs(database.url, 'company-contacts', rolePassword),
		TRUST_PROXY: 'loopback',
	});
	gateway = await startNginx(gatewayConfig(new URL(service.url).host));
});
afterAll(async () => {
	await gateway?.stop();
	await service?.stop();
});

/** Sends a request on a new connection. */
const sendOnce = () =>
	new Promise<IncomingMessage>((resolve, reject) => {
		const target = `${gateway.url}${path}?project=first&api_key=first-key`;
		request(target, { agent: false }, (response) => resolve(response.resume()))
			.on('error', reject)
			.end();
	});

/** The same, sent again while a process without a turn of its event loop refuses it. */
async function list(): Promise<IncomingMessage> {
	for (;;) {
		const response = await sendOnce();
		if (response.statusCode !== 503) return response;
	}
}

test('of 300 requests at once from one address exactly 250 and the refill pass through the gateway, and the service refuses the rest', async () => {
	const start = performance.now();
	const responses = await Promise.all(Array.from({ length: 300 }, list));
	const refill = Math.ceil((5 * (performance.now() - start)) / 1000);

	const admitted = responses.filter(({ statusCode }) => statusCode === 200).length;
	expect(admitted).toBeGreaterThanOrEqual(250);
	expect(admitted).toBeLessThanOrEqual(250 + refill);
	const refused = responses.filter(({ statusCode }) => statusCode === 429);
	expect(admitted + refused.length).toBe(300);
	for (const { headers } of responses) {
		expect(headers['ratelimit-limit']).toBe('250');
		expect(headers).toHaveProperty('ratelimit-remaining');
		expect(headers).toHaveProperty('ratelimit-reset');
	}
	for (const { headers } of refused) expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1);

	const lines = () =>
		gateway
			.accessLog()
			.split('\n')
			.filter(Boolean)
			.map((line) => JSON.parse(line) as { status: number; upstream_status: string })
			.filter(({ status }) => status !== 503);
	await expect.poll(() => lines().length).toBe(300);
	expect(lines().filter((line) => line.upstream_status === String(line.status))).toHaveLength(300);
});
