// A copy of all contacts in a file, brought up to date each time this program runs.
import { readFile, rename, writeFile } from 'node:fs/promises';
import { type CompanyContact, type CopyStore, createCompanyContactsClient } from '@contacts/client';

const { CONTACTS_URL = 'http://127.0.0.1:3000', CONTACTS_PROJECT = 'demo', CONTACTS_KEY = 'demo-key' } = process.env;
const { COPY = 'contacts.json' } = process.env;

interface Copy {
	cursor?: string;
	contacts: CompanyContact[];
}
const read = () =>
	readFile(COPY, 'utf8').then(
		(text) => JSON.parse(text) as Copy,
		(): Copy => ({ contacts: [] }),
	);

const store: CopyStore = {
	readCursor: async () => (await read()).cursor,
	async apply({ changes, cursor, reset }) {
		const contacts = new Map(reset ? [] : (await read()).contacts.map((contact) => [contact.id, contact]));
		for (const change of changes) {
			if (change.deleted) contacts.delete(change.contact.id);
			else contacts.set(change.contact.id, change.contact);
		}
		// The contacts and the cursor, or neither.
		await writeFile(`${COPY}.new`, JSON.stringify({ cursor, contacts: [...contacts.values()] }));
		await rename(`${COPY}.new`, COPY);
	},
};

const client = createCompanyContactsClient({ baseUrl: CONTACTS_URL, project: CONTACTS_PROJECT, apiKey: CONTACTS_KEY });
const changes = await client.keepCopy(store);
console.log(`${changes} changes, ${(await read()).contacts.length} contacts`);
