import type { Category, StandInContact, UserField } from './contact.js';
import { FaultScript, type RequestInfo } from './faults.js';
import { OperatingTime, type Plan, RequestCounter } from './limits.js';
import type { Params } from './rest.js';

/** What rows of crm.item.list have of a list inside of them. `sometimes`: a third of the contacts has all of it. */
export type ListPart = 'all' | 'absent' | 'empty' | 'first' | 'sometimes';

export interface StandInOptions {
	/** The request counter: 50 and 2 per second (the default), or 250 and 5 per second. */
	plan?: Plan;
	/** The CRM's clock in milliseconds since the epoch, for dates and for the limits. */
	clock?: () => number;
	/** The UTC offset of the CRM's dates. Default: +03:00. */
	utcOffset?: string;
	/** The contacts' custom fields. */
	fields?: UserField[];
	/** The first contacts, as for add(). */
	contacts?: Iterable<Partial<StandInContact>>;
	/** What no documentation says of crm.item.list. Default: all. */
	lists?: { companyIds?: ListPart; fm?: ListPart };
	/** The operating time of a call in seconds, by method. Default: 0, so that no test reaches the limit by accident. */
	operatingSecondsPerCall?: Partial<Record<string, number>>;
	/** Default: 480. */
	operatingLimitSeconds?: number;
	/**
	 * What a batch costs of the operating time: that of each of its commands, as documented (the default), or of `batch`, as measured
	 * by others.
	 */
	billing?: 'commands' | 'batch';
	/** Makes the address https. */
	tls?: TlsOptions;
}

/** The certificate of the stand-in and its key, as PEM. */
export interface TlsOptions {
	key: string;
	cert: string;
}

/** The webhook's user, and its secret. */
export const userId = 1;
export const secret = 'k3v9s7q1x5w8';

/** A function of a test that is called at a certain point. */
export type Hook<Info> = (info: Info) => void | Promise<void>;

/** Everything that the methods work on. */
export interface CrmState {
	clock: () => number;
	utcOffset: string;
	fields: UserField[];
	lists: { companyIds: ListPart; fm: ListPart };
	contacts: Map<number, StandInContact>;
	categories: Category[];
	/** The highest ID so far. */
	lastId: number;
	counter: RequestCounter;
	operating: OperatingTime;
	billing: 'commands' | 'batch';
	faults: FaultScript;
	requests: RecordedRequest[];
	requestHooks: Set<Hook<RequestInfo>>;
	pageHooks: Set<Hook<readonly number[]>>;
	secondsOf(method: string): number;
}

/** A request over HTTP as the stand-in remembers it. */
export interface RecordedRequest {
	method: string;
	params: unknown;
	/** 0 until there is a response. It stays 0 if the connection was broken or left open. */
	status: number;
	/** The commands of a batch that were run. */
	calls?: BatchCall[];
}

export interface BatchCall {
	method: string;
	params: Params;
	/** The code of its error. */
	error?: string;
}

export function createCrmState(options: StandInOptions): CrmState {
	const { clock = Date.now, operatingSecondsPerCall: seconds = {} } = options;
	return {
		clock,
		utcOffset: options.utcOffset ?? '+03:00',
		fields: [...(options.fields ?? [])],
		lists: { companyIds: 'all', fm: 'all', ...options.lists },
		contacts: new Map(),
		categories: [{ id: 0 }, { id: 7, isSystem: true }],
		lastId: 0,
		counter: new RequestCounter(options.plan ?? 'standard', clock),
		operating: new OperatingTime(options.operatingLimitSeconds ?? 480, clock),
		billing: options.billing ?? 'commands',
		faults: new FaultScript(),
		requests: [],
		requestHooks: new Set(),
		pageHooks: new Set(),
		secondsOf: (method) => seconds[method] ?? 0,
	};
}
