import { kindOfPage } from '@contacts/crm-sync/bitrix24/errors.js';
import type { RunRow } from '@contacts/crm-sync/mirror/runs.sql.js';
import type { SyncState } from '@contacts/crm-sync/mirror/state.sql.js';

const newWebhook = 'make a new webhook in Bitrix24 and set BITRIX24_WEBHOOK_URL';

/** What to do about each code. Those of the CRM are in upper case, and come in either. */
const advice: Record<string, string> = {
	INVALID_CREDENTIALS: `the webhook is wrong, was deleted or has expired, or its user lacks a right: look at it in Bitrix24, or ${newWebhook}`,
	NO_AUTH_FOUND: `the webhook is wrong, was deleted or has expired: ${newWebhook}`,
	EXPIRED_TOKEN: `the webhook has expired: ${newWebhook}`,
	AUTHORIZATION_ERROR: `the webhook’s user was dismissed or may not log in: as another user, ${newWebhook}`,
	USER_ACCESS_ERROR: `the webhook’s user has no access to it: as another user, ${newWebhook}`,
	ALLOWED_ONLY_INTRANET_USER: `the webhook’s user is no employee of the company: as an employee, ${newWebhook}`,
	INSUFFICIENT_SCOPE: 'the webhook lacks the right "CRM": add it in Bitrix24',
	ERROR_METHOD_NOT_FOUND: 'the webhook lacks the right "CRM", or this Bitrix24 is too old: add the right, or update it',
	INVALID_ARG_VALUE: 'the CRM does not know a filter that the mirror needs: update a self-hosted Bitrix24',
	ACCESS_DENIED: 'the CRM has no subscription that includes REST, or the webhook’s user may not read contacts',
	PAYMENT_REQUIRED: 'the subscription of the CRM has ended: renew it',
	OVERLOAD_LIMIT: 'the CRM has blocked its REST interface: ask the Bitrix24 support',
	PORTAL_DELETED:
		'the CRM was deleted, or its public part is closed, as a self-hosted one is for maintenance: look whether it opens in a browser',
	QUERY_LIMIT_EXCEEDED:
		'other programs at this address call the CRM too, or its plan allows less: check BITRIX24_PLAN, or try again later',
	OPERATION_TIME_LIMIT:
		'the CRM has worked too long for this webhook within ten minutes: the synchroniser tries it again',
	network: 'check whether the CRM can be reached from here',
	timeout: 'the CRM does not respond within 65 seconds: try again later, or ask its administrator',
	response_too_large: 'a response is larger than 8 MB: look for contacts with very long texts',
	text_before_json:
		'the CRM writes text in front of its data, such as a warning of PHP: its administrator has to turn that off',
	no_portal_clock: 'the responses of the CRM lack time.date_start, which the mirror needs: update Bitrix24',
	configuration_differs:
		'the mirror was made with another CRM, other fields or another country ("contacts sync status" shows them): set the BITRIX24_ variables as they were, or run "contacts sync --remap" with the new ones',
};

/** Explains an error code, of the CRM or of the synchroniser, and says what to do. */
export function adviceFor(code: string): string {
	if (code.startsWith('portal_moved_to_')) return `the CRM has moved to ${code.slice(16)}: set BITRIX24_WEBHOOK_URL`;
	if (code.startsWith('no_field_'))
		return `the CRM has no contact field ${code.slice(9)}: check BITRIX24_UF_TROUBLE and BITRIX24_UF_REASON`;
	const [, type, field] = /^type_(\w+)_of_(UF_CRM_\w+)$/.exec(code) ?? [];
	if (field !== undefined)
		return `the contact field ${field} has the type ${type}: set BITRIX24_UF_TROUBLE and BITRIX24_UF_REASON to fields that are a text, a number, yes or no, a link or a list`;
	if (code.startsWith('not_json_')) return adviceForPage(Number(code.slice(9)));
	const known = [code, code.toUpperCase()].find((name) => Object.hasOwn(advice, name));
	return (known && advice[known]) || 'try again later, or look the code up in the documentation of Bitrix24';
}

/** The CRM, or something before it, has sent a page for people, with this HTTP status. */
function adviceForPage(status: number): string {
	return kindOfPage(status) === 'stop'
		? `a page with the HTTP status ${status} came in place of data: look whether the CRM still exists at this address, and whether a firewall or proxy before it refuses this machine or the User-Agent "contacts"`
		: `a page with the HTTP status ${status} came in place of data, as during maintenance: try again later`;
}

/** Why a run failed, in one line. */
export function explainFailure({ outcome, unread, deleted }: RunRow, { blocked_until: until }: SyncState): string {
	const deletions = deleted > 0 ? `${deleted} contacts were deleted in the CRM, and here.` : 'Nothing was deleted.';
	switch (outcome) {
		case 'failed':
			return `The run failed unexpectedly: see the log of the synchroniser. ${deletions}`;
		case 'incomplete': {
			const what = unread > 0 ? `${unread} contacts could not be read and` : 'contacts';
			return `The run is incomplete: ${what} stay as they are. ${deletions} Look whether the webhook’s user may read all contacts.`;
		}
		default: {
			const when = until === null ? '' : `, not before ${new Date(until).toISOString()}`;
			return `The run failed with ${outcome}: ${adviceFor(String(outcome))}${when}. ${deletions}`;
		}
	}
}
