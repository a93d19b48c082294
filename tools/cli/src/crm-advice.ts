import { kindOfPage } from '@contacts/crm-sync/bitrix24/errors.js';
import type { RunRow, SyncState } from '@contacts/crm-sync/sync.sql.js';

const advice: Record<string, string> = {
	INVALID_CREDENTIALS: 'the webhook is wrong or was deleted: make a new one in Bitrix24 and set BITRIX24_WEBHOOK_URL',
	NO_AUTH_FOUND: 'the webhook is wrong or was deleted: make a new one in Bitrix24 and set BITRIX24_WEBHOOK_URL',
	insufficient_scope: 'the webhook lacks the right "CRM": add it in Bitrix24',
	ACCESS_DENIED: 'the CRM has no subscription that includes REST, or the webhook’s user may not read contacts',
	OVERLOAD_LIMIT: 'the CRM has blocked its REST interface: ask the Bitrix24 support',
	PORTAL_DELETED: 'the CRM does not exist any more',
	configuration_differs:
		'the mirror was made with another CRM, other fields or another country ("contacts sync status" shows them): set the BITRIX24_ variables as they were, or run "contacts sync --remap" with the new ones',
};

/** Explains an error code, of the CRM or of the synchroniser, and says what to do. */
export function adviceFor(code: string): string {
	if (code.startsWith('portal_moved_to_')) return `the CRM has moved to ${code.slice(16)}: set BITRIX24_WEBHOOK_URL`;
	if (code.startsWith('no_field_'))
		return `the CRM has no contact field ${code.slice(9)}: check BITRIX24_UF_TROUBLE and BITRIX24_UF_REASON`;
	if (code.startsWith('not_json_')) return adviceForPage(Number(code.slice(9)));
	return (Object.hasOwn(advice, code) && advice[code]) || 'try again later';
}

/** The CRM, or something before it, has sent a page for people, with this HTTP status. */
function adviceForPage(status: number): string {
	return kindOfPage(status) === 'stop'
		? `a page with the HTTP status ${status} came in place of data: look whether the CRM still exists at this address, and whether a firewall or proxy before it refuses this machine or the User-Agent "contacts"`
		: `a page with the HTTP status ${status} came in place of data, as during maintenance: try again later`;
}

/** Why a run failed, in one line. */
export function explainFailure({ outcome, unread, deleted }: RunRow, { blocked_until: until }: SyncState): string {
	switch (outcome) {
		case 'failed':
			return 'The run failed unexpectedly: see the log of the synchroniser.';
		case 'incomplete': {
			const what = unread > 0 ? `${unread} contacts could not be read and` : 'contacts';
			const deletions = deleted > 0 ? `${deleted} contacts were deleted in the CRM, and here.` : 'Nothing was deleted.';
			return `The run is incomplete: ${what} stay as they are. ${deletions} Look whether the webhook’s user may read all contacts.`;
		}
		default: {
			const when = until === null ? '' : `, not before ${new Date(until).toISOString()}`;
			return `The CRM refused it with ${outcome}: ${adviceFor(String(outcome))}${when}. Nothing was deleted.`;
		}
	}
}
