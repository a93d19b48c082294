/** Whether an If-None-Match header matches this tag: a list of tags, weak ones too, or `*` (RFC 9110, section 13.1.2). */
export function matchesEntityTag(ifNoneMatch: string | undefined, entityTag: string): boolean {
	if (ifNoneMatch === undefined) return false;
	return ifNoneMatch.trim() === '*' || (ifNoneMatch.match(/"[^"]*"/g)?.includes(entityTag) ?? false);
}
