import { randomInt } from 'node:crypto';

export const services = ['company-contacts', 'personal-contacts'] as const;
export type ServiceName = (typeof services)[number];

export interface LoadRequest {
	method: 'GET' | 'POST';
	path: string;
	headers?: Record<string, string>;
	body?: string;
}

export interface Scenario {
	name: string;
	service: ServiceName;
	/** Each sends its next request as soon as it has the response to the one before. */
	connections: number;
	/** The requests to send, in turn. */
	requests(url: string, credentials: string): LoadRequest[] | Promise<LoadRequest[]>;
}

const contactCount = 10_000;
const companyCount = 1250;

const list = '/api/company_contacts.list';

export const scenarios: Scenario[] = [
	{
		name: 'list of one company',
		service: 'company-contacts',
		connections: 16,
		requests: (_, credentials) => [{ method: 'GET', path: `${list}?${credentials}&company_id=625` }],
	},
	{
		name: 'list of all',
		service: 'company-contacts',
		connections: 8,
		requests: (_, credentials) => [{ method: 'GET', path: `${list}?${credentials}` }],
	},
	{
		name: 'changes, nothing new',
		service: 'company-contacts',
		connections: 16,
		async requests(url, credentials) {
			const path = `/api/company_contacts.changes?${credentials}`;
			return [{ method: 'GET', path: `${path}&cursor=${await lastCursor(url + path)}` }];
		},
	},
	...[1, 16, 64].map(
		(connections): Scenario => ({
			name: connections === 1 ? 'upserts, 1 connection' : `upserts, ${connections} connections`,
			service: 'personal-contacts',
			connections,
			requests: (_, credentials) => upserts(credentials),
		}),
	),
];

/** Follows the changes to their end. */
async function lastCursor(url: string): Promise<string> {
	for (let cursor = ''; ; ) {
		const response = await fetch(`${url}${cursor && `&cursor=${cursor}`}`, { signal: AbortSignal.timeout(10_000) });
		if (response.status !== 200) throw new Error(`the changes have the status ${response.status}`);
		const page = (await response.json()) as { cursor: string; has_more: boolean };
		cursor = page.cursor;
		if (!page.has_more) return cursor;
	}
}

/** More than are sent in a second. Every other one is of a new chat. */
const upsertCount = 20_000;
const knownChats = 10_000;

function upserts(credentials: string): LoadRequest[] {
	const path = `/api/personal_contacts?${credentials}`;
	const headers = { 'content-type': 'application/json' };
	return Array.from({ length: upsertCount }, (_, index) => {
		const chat_id = index % 2 === 0 ? randomInt(1, knownChats) : randomInt(knownChats, 2 ** 47);
		const body = JSON.stringify({ chat_id, username: 'ivan.petrov', name: 'Ivan Petrov', birth_date: '1990-05-17' });
		return { method: 'POST', path, headers, body };
	});
}

/** Made-up company contacts. Each is some 176 bytes in the list, and each company has eight or ten. */
export function contacts(): object[] {
	return Array.from({ length: contactCount }, (_, index) => {
		const company = 1 + (index % companyCount);
		return {
			bitrix_id: 1000 + index,
			phone: `+1202555${String(index).padStart(4, '0')}`,
			company_ids: index % 4 === 0 ? `${company},${1 + (company % companyCount)}` : String(company),
			name: `${index % 3 === 0 ? 'Мария Зайцева' : 'Alexandra Konstantinova'} ${index}`,
			assigned_by_id: 1 + (index % 40),
			trouble_contact: index % 20 === 0 ? 'true' : null,
			perplexity_reason: index % 20 === 0 ? 'Asks for a call back, never answers' : null,
		};
	});
}
