import type { RequestError } from '@contacts/crm-sync/requests.js';

const advice: Record<string, string> = {
	INVALID_CREDENTIALS: 'the webhook is wrong or was deleted: make a new one in the portal and set BITRIX24_WEBHOOK_URL',
	NO_AUTH_FOUND: 'the webhook is wrong or was deleted: make a new one in the portal and set BITRIX24_WEBHOOK_URL',
	insufficient_scope: 'the webhook lacks the right "CRM": add it in the portal',
	ACCESS_DENIED: 'the portal has no subscription that includes REST, or the webhook’s user may not read contacts',
	OVERLOAD_LIMIT: 'the portal has blocked its REST interface: ask the Bitrix24 support',
	PORTAL_DELETED: 'the portal does not exist any more',
	configuration_differs:
		'the mirror was made with another portal, other fields or another country ("contacts sync status" shows them): set the BITRIX24_ variables as they were, or run "contacts sync --remap" with the new ones',
};

/** Explains an error code, of the portal or of the synchroniser, and says what to do. */
export function adviceFor(code: string): string {
	if (code.startsWith('portal_moved_to_')) return `the portal has moved to ${code.slice(16)}: set BITRIX24_WEBHOOK_URL`;
	if (code.startsWith('no_field_'))
		return `the portal has no contact field ${code.slice(9)}: check BITRIX24_UF_TROUBLE and BITRIX24_UF_REASON`;
	return (Object.hasOwn(advice, code) && advice[code]) || 'try again later';
}

/** Why the synchroniser did not fulfil a request, in one line. */
export function explainRequestError(error: RequestError): string {
	switch (error.reason) {
		case 'portal': {
			const when = error.until === null ? '' : `, not before ${new Date(error.until).toISOString()}`;
			return `The portal refused ${error.method} with ${error.code}: ${adviceFor(error.code)}${when}. Nothing was deleted.`;
		}
		case 'configuration':
			return `The mirror was made with another configuration: ${error.differences.join('; ')}. Nothing was changed. Set the variables as they were, or say --remap to read every contact again with these.`;
		case 'other-synchroniser':
			return `The synchroniser that runs has another configuration: ${error.differences.join('; ')}. Nothing was changed. Set the variables here as they are there; or restart it with those of here, and say --remap.`;
		case 'incomplete':
			return `The pass is incomplete: ${error.detail}. Nothing was deleted. Look whether the webhook’s user may read all contacts.`;
		case 'unexpected':
			return `The synchroniser that runs failed unexpectedly (${error.name}): see its log.`;
	}
}
