import { addProject, revokeKeysOf } from '@contacts/testing/app.js';
import { startPgBouncer } from '@contacts/testing/pgbouncer.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { startServiceProcess, urlFor } from '../services.js';

/** Ways to the database, and what happens to each at the moment of the change. */
const ways: Record<string, () => Promise<{ url: string; disturb(): unknown }>> = {
	async 'behind PgBouncer in transaction mode'() {
		const url = urlFor('company-contacts');
		const pgbouncer = await startPgBouncer(url);
		onTestFinished(() => pgbouncer.stop());
		return { url: pgbouncer.through(url), disturb: () => undefined };
	},
	async 'with two hosts, the first of which is cut off'() {
		const url = urlFor('company-contacts');
		const proxies = [await startTcpProxy(url), await startTcpProxy(url)] as const;
		onTestFinished(() => {
			for (const proxy of proxies) proxy.close();
		});
		const hosts = proxies.map((proxy) => new URL(proxy.through(url)).host);
		return { url: url.replace(/@[^/]+/, `@${hosts.join()}`), disturb: () => proxies[0].cut() };
	},
};

test.each(Object.keys(ways))(
	'%s a revoked key, a changed list and a change in the feed are seen within a second',
	async (way) => {
		const { url, disturb } = (await ways[way]?.()) ?? expect.unreachable();
		const service = startServiceProcess('company-contacts', {
			DATABASE_URL: url,
			RATE_LIMIT_PER_SECOND: '100000',
			RATE_LIMIT_BURST: '100000',
		});
		const address = await service.listening();
		const [reader, revoked] = [`reader-${way.length}`, `revoked-${way.length}`];
		for (const project of [reader, revoked]) await addProject(database.sql, project, `${project}-key`);
		await database.sql`insert into company_contacts (bitrix_id) values (${way.length}) on conflict do nothing`;
		const fetchAs = (project: string, path: string) =>
			fetch(`${address}/api/company_contacts.${path}project=${project}&api_key=${project}-key`);
		for (const project of [reader, revoked])
			await expect.poll(async () => (await fetchAs(project, 'list?')).status).toBe(200);
		const { cursor } = (await (await fetchAs(reader, 'changes?')).json()) as { cursor: string };
		const name = `Changed ${way}`;
		const isOld = {
			key: async () => (await fetchAs(revoked, 'list?')).status === 200,
			list: async () => !(await (await fetchAs(reader, 'list?')).text()).includes(name),
			feed: async () => !(await (await fetchAs(reader, `changes?cursor=${cursor}&`)).text()).includes(name),
		};
		await disturb();
		await revokeKeysOf(database.sql, revoked);
		await database.sql`update company_contacts set name = ${name} where bitrix_id = ${way.length}`;
		const changed = performance.now();
		const last = await Promise.all(
			Object.values(isOld).map(async (check) => {
				for (let last = { sent: 0, arrived: 0 }; ; ) {
					const sent = performance.now() - changed;
					if (!(await check())) return last;
					last = { sent, arrived: performance.now() - changed };
				}
			}),
		);
		const times = last.map(({ sent, arrived }) => `${arrived.toFixed(0)} (sent ${sent.toFixed(0)})`);
		console.log(`${way}: the last response without the change arrived after ${times.join(', ')} ms`);
		// A key is checked when the request arrives. A list must not be older than a second when its response does.
		const [revokedKey, ...read] = last;
		expect(revokedKey?.sent).toBeLessThan(1000);
		expect(Math.max(...read.map(({ arrived }) => arrived))).toBeLessThan(1000);
	},
);
