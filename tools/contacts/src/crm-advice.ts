const advice: Record<string, string> = {
	INVALID_CREDENTIALS: 'the webhook is wrong or was deleted: make a new one in the portal and set BITRIX24_WEBHOOK_URL',
	NO_AUTH_FOUND: 'the webhook is wrong or was deleted: make a new one in the portal and set BITRIX24_WEBHOOK_URL',
	insufficient_scope: 'the webhook lacks the right "CRM": add it in the portal',
	ACCESS_DENIED: 'the portal has no subscription that includes REST, or the webhook’s user may not read contacts',
	OVERLOAD_LIMIT: 'the portal has blocked its REST interface: ask the Bitrix24 support',
	PORTAL_DELETED: 'the portal does not exist any more',
};

/** What a code of the portal, or of ours, means for the person at the terminal, and what to do. */
export function adviceFor(code: string): string {
	if (code.startsWith('portal_moved_to_')) return `the portal has moved to ${code.slice(16)}: set BITRIX24_WEBHOOK_URL`;
	if (code.startsWith('no_field_'))
		return `the portal has no contact field ${code.slice(9)}: check BITRIX24_UF_TROUBLE and BITRIX24_UF_REASON`;
	return advice[code] ?? 'try again later';
}
