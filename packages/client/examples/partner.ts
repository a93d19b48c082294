// A partner's first call.
import { ContactsError, createCompanyContactsClient } from '@contacts/client';

const { CONTACTS_URL = 'http://127.0.0.1:3000', CONTACTS_PROJECT = 'demo', CONTACTS_KEY = 'demo-key' } = process.env;

const client = createCompanyContactsClient({ baseUrl: CONTACTS_URL, project: CONTACTS_PROJECT, apiKey: CONTACTS_KEY });

try {
	const { contacts } = await client.list({ companyId: 11 });
	for (const { name, phone } of contacts) console.log(`${name ?? 'no name'}: ${phone ?? 'no phone'}`);
} catch (error) {
	if (!(error instanceof ContactsError)) throw error;
	console.error(error.code === 'unauthorized' ? 'Check the project and the key.' : error.message);
	process.exitCode = 1;
}
