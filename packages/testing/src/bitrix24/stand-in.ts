import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { StandInContact, UserField } from './contact.js';
import { type ContactStore, createContactStore } from './contact-store.js';
import { type EventName, sendEvent } from './event-sender.js';
import type { FaultScript, RequestInfo } from './faults.js';
import type { RecordedRequest } from './handle-call.js';
import { createHttpServer } from './http-server.js';
import type { PageInfo } from './list.js';
import { createPortal, type Hook, type PortalOptions, secret, userId } from './portal.js';
import type { Switches } from './switches.js';

export type { StandInContact, UserField } from './contact.js';
export type { Fault } from './faults.js';
export { type Switches, switchPositions } from './switches.js';

export interface StandInOptions extends PortalOptions {
	/** A free one by default. */
	port?: number;
	/** The first contacts, as for add(). */
	contacts?: Iterable<Partial<StandInContact>>;
	/** The token of the outgoing webhook. */
	applicationToken?: string;
}

/** A running portal, and everything that a test can do to it. */
export interface StandIn extends ContactStore {
	/** http://127.0.0.1:PORT/rest/USER/SECRET/ */
	readonly webhookUrl: string;
	/** The token that its events carry. */
	readonly applicationToken: string;
	/** The contacts by id. They may be changed in place; then nothing moves their updatedTime. */
	readonly contacts: Map<number, StandInContact>;
	/** The contacts' custom fields; may be changed in place. */
	readonly fields: UserField[];
	/** What the webhook may use; may be changed in place. */
	readonly scopes: string[];
	/** May be changed at any time. */
	readonly switches: Switches;

	/** The webhook is deleted: every call is refused from now on. */
	revokeWebhook(): void;
	removeField(name: string): void;

	/** Every REST call over HTTP, in the order in which they came. */
	readonly requests: RecordedRequest[];
	/** How many requests the rate limit refused. */
	readonly blockedRequests: number;
	/** Counts this many requests of another client with the same address. */
	useUp(requests: number): void;
	/** The highest value of the rate limit's counter so far. */
	readonly highestRequestCount: number;
	/** How many calls the limit of operating time refused. */
	readonly blockedOperations: number;

	readonly faults: FaultScript;
	/** Called before a request is handled, unless the rate limit refuses it. Returns a function that removes the hook. */
	onRequest(hook: Hook<RequestInfo>): () => void;
	/** Called between the id query and the row query of a list. Returns a function that removes the hook. */
	onPage(hook: Hook<PageInfo>): () => void;

	/** One attempt, never repeated. Status 0 where there was no response. */
	sendEvent(url: string, event: EventName, id: number): Promise<{ status: number }>;

	/** Also ends open connections. */
	close(): Promise<void>;
}

/** Starts a portal on 127.0.0.1. */
export async function startStandIn(options: StandInOptions = {}): Promise<StandIn> {
	const portal = createPortal(options);
	const store = createContactStore(portal);
	for (const contact of options.contacts ?? []) store.add(contact);

	const requests: RecordedRequest[] = [];
	const applicationToken = options.applicationToken ?? 'z5w1n8c4p7m2z5w1n8c4p7m2z5w1n8c4';
	const server = createHttpServer(portal, requests);
	server.listen(options.port ?? 0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address() as AddressInfo;

	return {
		webhookUrl: `http://127.0.0.1:${port}/rest/${userId}/${secret}/`,
		applicationToken,
		contacts: portal.contacts,
		fields: portal.fields,
		scopes: portal.scopes,
		switches: portal.switches,
		...store,
		revokeWebhook: () => {
			portal.revoked = true;
		},
		removeField: (name) => {
			const index = portal.fields.findIndex((field) => field.name === name);
			if (index >= 0) portal.fields.splice(index, 1);
		},
		requests,
		get blockedRequests() {
			return portal.counter.refused;
		},
		get highestRequestCount() {
			return portal.counter.highest;
		},
		get blockedOperations() {
			return portal.operating.refused;
		},
		useUp: (count) => {
			for (let n = 0; n < count; n++) portal.counter.admit('127.0.0.1');
		},
		faults: portal.faults,
		onRequest: (hook) => addTo(portal.requestHooks, hook),
		onPage: (hook) => addTo(portal.pageHooks, hook),
		sendEvent: (url, event, id) => sendEvent(portal, applicationToken, url, event, id),
		close: async () => {
			const closed = once(server, 'close');
			server.close();
			server.closeAllConnections();
			await closed;
		},
	};
}

/** @returns a function that removes it again */
function addTo<T>(set: Set<T>, one: T): () => void {
	set.add(one);
	return () => set.delete(one);
}
