import { setTimeout as delay } from 'node:timers/promises';
import { decide } from '@contacts/common/http/token-bucket.js';
import { startNginx } from '@contacts/testing/nginx.js';
import { expect, onTestFinished, test } from 'vitest';

test('the token bucket admits a random trace of arrivals as nginx does with limit_req rate=5r/s burst=249 nodelay', async () => {
	const nginx = await startNginx(`
		log_format decision '$msec $status';
		access_log ACCESS_LOG decision;
		limit_req_zone $server_port zone=one:1m rate=5r/s;
		server { listen 127.0.0.1:PORT; root FOLDER/html; limit_req zone=one burst=249 nodelay; limit_req_status 429; }`);
	onTestFinished(() => nginx.stop());
	const end = performance.now() + 8_000;
	let sent = 0;
	while (performance.now() < end) {
		// Bursts first, then single requests around the refill rate.
		const burst = sent < 400 ? Math.ceil(Math.random() * 60) : Math.ceil(Math.random() ** 4 * 5);
		const responses = await Promise.all(Array.from({ length: burst }, () => fetch(nginx.url)));
		for (const response of responses) await response.arrayBuffer();
		sent += burst;
		await delay(Math.random() * 300);
	}
	await expect.poll(() => nginx.accessLog().trim().split('\n').length).toBe(sent);

	const policy = { perSecond: 5, burst: 250 };
	let arrival = 0;
	let admitted = 0;
	let close = 0;
	for (const line of nginx.accessLog().trim().split('\n')) {
		const [seconds, status] = line.split(' ').map(Number) as [number, number];
		const now = Math.round(seconds * 1000);
		const [decision] = decide(policy, arrival, now);
		// nginx logs its wall clock but decides by another clock. A few milliseconds around a refill prove nothing.
		const margin = Math.abs(Math.max(arrival, now) - now - (policy.burst - 1) * 200);
		if (decision.admitted !== (status === 200)) {
			expect(margin).toBeLessThanOrEqual(3);
			close++;
		}
		if (status === 200) {
			arrival = Math.max(arrival, now) + 200;
			admitted++;
		}
	}
	console.log(`${sent} requests, ${admitted} admitted by nginx, ${close} too close to call`);
	expect(admitted).toBeGreaterThan(250);
	expect(sent - admitted).toBeGreaterThan(50);
	// On a busy machine nginx writes many lines some milliseconds after it has decided.
	expect(close).toBeLessThan(sent / 10);
});
