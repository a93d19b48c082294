// The bot's backend saves the user of a chat.
import { ContactsError, createPersonalContactsClient } from '@contacts/client';

const { CONTACTS_URL = 'http://127.0.0.1:3001', CONTACTS_PROJECT = 'demo', CONTACTS_KEY = 'demo-key' } = process.env;

const client = createPersonalContactsClient({ baseUrl: CONTACTS_URL, project: CONTACTS_PROJECT, apiKey: CONTACTS_KEY });

try {
	const outcome = await client.upsert({ chat_id: 5550001, username: 'ivan', birth_date: '1990-05-17' });
	console.log(outcome === 'saved' ? 'The user was saved.' : 'The chat has an active subscription.');
} catch (error) {
	if (!(error instanceof ContactsError)) throw error;
	console.error(error.message);
	for (const { field, message } of error.errors) console.error(`  ${field} ${message}`);
	process.exitCode = 1;
}
