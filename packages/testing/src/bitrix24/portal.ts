import type { StandInContact, UserField } from './contact.js';
import { ContactMap } from './contact-map.js';
import { FaultScript, type RequestInfo } from './faults.js';
import type { PageInfo } from './list.js';
import { OperatingTime } from './operating-time.js';
import { offsetMinutes } from './portal-dates.js';
import { type Plan, RequestCounter } from './rate-limit.js';
import { defaultSwitches, type Switches } from './switches.js';

export interface PortalOptions {
	/** The request counter: 50 and 2 per second (the default), 250 and 5 per second, or none. */
	plan?: Plan;
	/** The portal's clock in milliseconds since the epoch, for dates and for the limits. */
	clock?: () => number;
	/** The UTC offset of the portal's dates. Default: +03:00. */
	utcOffset?: string;
	/** The contacts' custom fields. */
	fields?: UserField[];
	/** The webhook's scopes, ["crm"] by default. */
	scopes?: string[];
	switches?: Partial<Switches>;
	/** What a call costs, by method; "*" for all others. Default: 0, so that no test reaches the limit by accident. */
	operatingSecondsPerCall?: Partial<Record<string, number>>;
	/** 480 by default. [DOC] */
	operatingLimitSeconds?: number;
}

/** The webhook's user, and its secret. */
export const userId = 1;
export const secret = 'k3v9s7q1x5w8';

/** A function of a test that is called at a certain point. */
export type Hook<Info> = (info: Info) => void | Promise<void>;

/** Everything that the methods work on. */
export interface Portal {
	clock: () => number;
	utcOffset: string;
	fields: UserField[];
	scopes: string[];
	switches: Switches;
	secondsOf(method: string): number;
	contacts: ContactMap;
	counter: RequestCounter;
	operating: OperatingTime;
	faults: FaultScript;
	requestHooks: Set<Hook<RequestInfo>>;
	pageHooks: Set<Hook<PageInfo>>;
	pages: number;
	/** The webhook was deleted, or given a new secret. */
	revoked: boolean;
}

/**
 * A portal without contacts.
 *
 * @throws RangeError when utcOffset is invalid
 */
export function createPortal(options: PortalOptions): Portal {
	const clock = options.clock ?? Date.now;
	const switches: Switches = { ...defaultSwitches, ...options.switches };
	const seconds = options.operatingSecondsPerCall ?? {};
	const utcOffset = options.utcOffset ?? '+03:00';
	// Fails here instead of in every response.
	offsetMinutes(utcOffset);
	return {
		clock,
		utcOffset,
		fields: [...(options.fields ?? [])],
		scopes: [...(options.scopes ?? ['crm'])],
		switches,
		secondsOf: (method) => seconds[method] ?? seconds['*'] ?? 0,
		contacts: new ContactMap(),
		counter: new RequestCounter(options.plan ?? 'standard', clock, () => switches.blockedCallsCount),
		operating: new OperatingTime(options.operatingLimitSeconds ?? 480, clock),
		faults: new FaultScript(),
		requestHooks: new Set(),
		pageHooks: new Set(),
		pages: 0,
		revoked: false,
	};
}

/** [DOC] What the webhook's user may not read is silently missing from lists. */
export function isReadable(contact: StandInContact): boolean {
	return contact.readable !== false;
}
