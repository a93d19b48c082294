import { contactCompanies, contactGet, contactList } from './classic-methods.js';
import { RestError } from './errors.js';
import type { ActiveFaults } from './fault-effects.js';
import { itemFieldsMethod, itemGet, itemList } from './item-methods.js';
import type { Params } from './php-values.js';
import { type Portal, userId } from './portal.js';
import { formatDate } from './portal-dates.js';

/** What a method returns, without `time`. */
export interface MethodResult {
	result: unknown;
	total?: number;
	next?: number;
}

export type Method = (params: Params, portal: Portal) => MethodResult | Promise<MethodResult>;

/** profile: who the webhook acts as. [DOC] It needs no scope. */
const profile: Method = () => ({
	result: {
		ID: String(userId),
		ADMIN: false,
		NAME: 'Webhook',
		LAST_NAME: 'Owner',
		PERSONAL_GENDER: '',
		TIME_ZONE: '',
	},
});

const methods: Record<string, { scope?: string; run: Method }> = {
	'crm.item.list': { scope: 'crm', run: itemList },
	'crm.item.get': { scope: 'crm', run: itemGet },
	'crm.item.fields': { scope: 'crm', run: itemFieldsMethod },
	'crm.contact.list': { scope: 'crm', run: contactList },
	'crm.contact.get': { scope: 'crm', run: contactGet },
	'crm.contact.company.items.get': { scope: 'crm', run: contactCompanies },
	profile: { run: profile },
};

/**
 * Calls a method, directly or inside a batch: its scope and its operating time are checked before, its operating time is
 * billed after. [DOC]
 *
 * @throws RestError
 */
export async function callMethod(
	portal: Portal,
	name: string,
	params: Params,
	faults: ActiveFaults,
): Promise<MethodResult & { time: Record<string, unknown> }> {
	// [INF] Method names are not case-sensitive.
	const key = name.toLowerCase();
	const method = Object.hasOwn(methods, key) ? methods[key] : undefined;
	if (method === undefined) throw new RestError('ERROR_METHOD_NOT_FOUND');
	if (method.scope !== undefined && !portal.scopes.includes(method.scope)) {
		// [DOC] Both are documented for a missing scope.
		const refused = portal.switches.missingScope === 'insufficient_scope';
		throw new RestError(refused ? 'insufficient_scope' : 'ERROR_METHOD_NOT_FOUND');
	}
	if (!portal.operating.admits(key)) throw new RestError('OPERATION_TIME_LIMIT');
	faults.throwError();
	const seconds = portal.secondsOf(key);
	try {
		const response = faults.mangle(await method.run(params, portal));
		portal.operating.add(key, seconds);
		return { ...response, time: timeOf(portal, key, seconds) };
	} catch (error) {
		// [INF] A refused call costs time as well.
		portal.operating.add(key, seconds);
		throw error;
	}
}

/** The `time` of a response, by the portal's clock and in its zone. [DOC] [REC] */
export function timeOf(portal: Portal, method: string, seconds: number): Record<string, unknown> {
	const { switches, utcOffset } = portal;
	const start = portal.clock() / 1000;
	// [INF] A call that is billed nothing has still taken some time.
	const duration = Math.max(seconds, 0.05);
	const whole = (value: number) => (switches.wholeSecondsInTime ? Math.floor(value) : value);
	const time: Record<string, unknown> = {
		start: whole(start),
		finish: start + duration,
		duration,
		processing: whole(duration * 0.4),
		date_start: formatDate(start * 1000, utcOffset),
		date_finish: formatDate((start + duration) * 1000, utcOffset),
	};
	if (switches.operatingResetAt === 'present') time.operating_reset_at = portal.operating.resetAt(method);
	if (switches.operatingResetAt === 'null') time.operating_reset_at = null;
	time.operating = portal.operating.spent(method);
	return time;
}
