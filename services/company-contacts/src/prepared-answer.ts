import { createHash } from 'node:crypto';
import type { CompanyContactRow } from './company-contacts.sql.js';

/** A list as the bytes that are sent, with its strong entity tag (RFC 9110, section 8.8.3). */
export interface PreparedAnswer {
	body: Buffer;
	entityTag: string;
}

export function prepareAnswer(contacts: readonly CompanyContactRow[]): PreparedAnswer {
	const body = Buffer.from(JSON.stringify({ count: contacts.length, data: contacts }));
	return { body, entityTag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"` };
}

/** Whether an If-None-Match header names this tag: a list of tags, weak ones too, or `*` (RFC 9110, section 13.1.2). */
export function matchesEntityTag(ifNoneMatch: string | undefined, entityTag: string): boolean {
	if (ifNoneMatch === undefined) return false;
	return ifNoneMatch.trim() === '*' || (ifNoneMatch.match(/"[^"]*"/g)?.includes(entityTag) ?? false);
}
