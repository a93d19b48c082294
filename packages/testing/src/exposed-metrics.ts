import { urlAs } from '@contacts/migrations/roles.js';
import { startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { addProject } from './app.js';
import { rolePassword, type TestDatabase } from './database.js';
import { startService } from './services.js';

/**
 * The responses of the three processes to `GET /metrics` after some work, by job name. They are the built programs with
 * their own database roles. Redis is unreachable.
 */
export async function collectExposedMetrics(db: TestDatabase): Promise<Record<string, string>> {
	await addProject(db.sql, 'measured', 'measured-key');
	const query = '?project=measured&api_key=measured-key';
	const crm = await startStandIn({ plan: 'enterprise' });
	const start = (name: 'personal-contacts' | 'company-contacts' | 'crm-sync', env = {}) =>
		startService(name, { DATABASE_URL: urlAs(db.url, name, rolePassword), ...env });
	const [personal, company, sync] = await Promise.all([
		start('personal-contacts'),
		start('company-contacts', { REDIS_URL: 'redis://127.0.0.1:1' }),
		start('crm-sync', { BITRIX24_WEBHOOK_URL: crm.webhookUrl }),
	]);
	try {
		await sync.waitForLine(/run done/);
		const body = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"chat_id":1}' };
		const statuses = [
			await fetch(`${personal.url}/api/personal_contacts${query}`, body),
			await fetch(`${company.url}/api/company_contacts.list${query}`),
		].map(({ status }) => status);
		if (statuses.some((status) => status !== 200)) throw new Error(`the requests got ${statuses}`);
		const read = async ({ url }: { url: string }) => (await fetch(`${url}/metrics`)).text();
		return {
			'personal-contacts': await read(personal),
			'company-contacts': await read(company),
			'crm-sync': await read(sync),
		};
	} finally {
		await Promise.all([personal, company, sync].map((each) => each.stop()));
		await crm.close();
	}
}
