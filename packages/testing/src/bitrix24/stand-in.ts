import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { Category, StandInContact, UserField } from './contact.js';
import { type ContactStore, createContactStore } from './contact-store.js';
import { createCrmState, type Hook, type RecordedRequest, type StandInOptions, secret, userId } from './crm-state.js';
import type { FaultScript, RequestInfo } from './faults.js';
import { createHttpServer } from './http-server.js';

// What is documented, and what is only assumed, is in docs/decisions/bitrix24.md.

export type { Category, StandInContact, UserField } from './contact.js';
export type { ListPart, StandInOptions } from './crm-state.js';
export type { Fault } from './faults.js';

/** A running CRM, and everything that a test can do to it. */
export interface StandIn extends ContactStore {
	/** http://127.0.0.1:PORT/rest/USER/SECRET/, or the same with https */
	readonly webhookUrl: string;
	/** The contacts by ID. They may be changed in place; then nothing moves their updatedTime. */
	readonly contacts: Map<number, StandInContact>;
	/** The contacts' categories; may be changed in place. */
	readonly categories: Category[];
	/** The contacts' custom fields; may be changed in place. */
	readonly fields: UserField[];

	/** Every REST call over HTTP, in the order in which they came. */
	readonly requests: RecordedRequest[];
	/** How many requests the rate limit refused. */
	readonly blockedRequests: number;
	/** The highest value of the rate limit's counter so far. */
	readonly highestRequestCount: number;
	/** How many calls the limit of operating time refused. */
	readonly blockedOperations: number;

	readonly faults: FaultScript;
	/** Called before a request is handled, unless the rate limit refuses it. Returns a function that removes the hook. */
	onRequest(hook: Hook<RequestInfo>): () => void;
	/** Called with the IDs of a page before its rows are read. */
	onPage(hook: Hook<readonly number[]>): void;
	/** Also ends open connections. */
	close(): Promise<void>;
}

/** Starts a CRM on 127.0.0.1: the methods of its REST API that the synchroniser calls, with its limits. */
export async function startStandIn(options: StandInOptions = {}): Promise<StandIn> {
	const crm = createCrmState(options);
	const { contacts, categories, fields, requests, faults, counter, operating } = crm;
	const store = createContactStore(crm);
	for (const contact of options.contacts ?? []) store.add(contact);
	const server = createHttpServer(crm, options.tls);
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address() as AddressInfo;

	return {
		webhookUrl: `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}/rest/${userId}/${secret}/`,
		...{ contacts, categories, fields, requests, faults },
		...store,
		get blockedRequests() {
			return counter.refused;
		},
		get highestRequestCount() {
			return counter.highest;
		},
		get blockedOperations() {
			return operating.refused;
		},
		onRequest(hook) {
			crm.requestHooks.add(hook);
			return () => void crm.requestHooks.delete(hook);
		},
		onPage: (hook) => void crm.pageHooks.add(hook),
		async close() {
			const closed = once(server, 'close');
			server.close();
			server.closeAllConnections();
			await closed;
		},
	};
}
