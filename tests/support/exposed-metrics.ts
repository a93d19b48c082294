import { fileURLToPath } from 'node:url';
import { startStandIn } from '@contacts/bitrix24-stand-in';
import { vi } from 'vitest';
import { urlAs } from '../../packages/common/src/database/roles.js';
import { rolePassword, type TestDatabase } from '../../packages/common/src/testing/database.js';
import { addProject } from '../../packages/common/src/testing/service.js';
import { run, startService } from './processes.js';

const synchroniser = fileURLToPath(new URL('../../services/company-contacts/dist/sync/main.js', import.meta.url));

/**
 * What each of the three processes answers to `GET /metrics` after some work, by job name. They are the built programs with
 * their own database roles; no Redis is there, as if it were away.
 */
export async function collectExposedMetrics(db: TestDatabase): Promise<Record<string, string>> {
	await addProject(db.sql, 'measured', 'measured-key');
	const query = '?project=measured&api_key=measured-key';
	const portal = await startStandIn({ plan: 'enterprise' });
	const personal = await startService('personal-contacts', {
		DATABASE_URL: urlAs(db.url, 'personal-contacts', rolePassword),
	});
	const company = await startService('company-contacts', {
		DATABASE_URL: urlAs(db.url, 'company-contacts', rolePassword),
		REDIS_URL: 'redis://127.0.0.1:1',
	});
	const sync = await run(process.execPath, [synchroniser], {
		DATABASE_URL: urlAs(db.url, 'company-contacts-sync', rolePassword),
		BITRIX24_WEBHOOK_URL: portal.webhookUrl,
		PORT: '0',
	});
	try {
		const address = () => /Server listening at (http:[^"]+)"/.exec(sync.output())?.[1];
		await vi.waitUntil(() => address() !== undefined && sync.output().includes('pass done'), { timeout: 20_000 });
		const body = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"chat_id":1}' };
		const statuses = [
			await fetch(`${personal.url}/api/personal_contacts${query}`, body),
			await fetch(`${company.url}/api/company_contacts.list${query}`),
		].map(({ status }) => status);
		if (statuses.some((status) => status !== 200)) throw new Error(`the requests were answered with ${statuses}`);
		const read = async (url: string | undefined) => (await fetch(`${url}/metrics`)).text();
		return {
			'personal-contacts': await read(personal.url),
			'company-contacts': await read(company.url),
			'company-contacts-sync': await read(address()),
		};
	} finally {
		await Promise.all([personal, company, sync].map((each) => each.stop()));
		await portal.close();
	}
}
