import { addProject, startTestApp } from '@contacts/testing/app.js';
import { enteredFiles } from '@contacts/testing/entered-files.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { service } from './app.js';

test('an upsert runs code in the listed files only', async () => {
	await addProject(database.sql, 'bot', 'bot-key');
	const app = await startTestApp(service, database.url);
	onTestFinished(() => app.close());
	const upsert = async () => {
		const response = await app.fetch('/api/personal_contacts?project=bot&api_key=bot-key', {
			method: 'POST',
			headers: { 'content-type': 'application/json' },
			body: '{"chat_id": 1, "name": "Ivan"}',
		});
		expect(await response.json()).toEqual({ ok: 'saved' });
	};
	await upsert();
	expect(await enteredFiles(upsert)).toEqual([
		'auth/authenticate.ts',
		'database/admission.ts',
		'database/database.ts',
		'database/expiring-write.ts',
		'database/pool.ts',
		'http/connections.ts',
		'http/load-shedding.ts',
		'http/server.ts',
		'personal-contacts.sql.ts',
		'schemas/fields.ts',
		'upsert-batcher.ts',
		'upsert-personal-contact.ts',
	]);
});
