/** Minutes east of UTC: "+03:00" is 180. */
export function offsetMinutes(offset: string): number {
	const match = /^([+-])(\d{2}):?(\d{2})$/.exec(offset);
	if (match === null) {
		if (offset === 'Z') return 0;
		throw new RangeError(`${offset} is no UTC offset like +03:00`);
	}
	return (match[1] === '-' ? -1 : 1) * (Number(match[2]) * 60 + Number(match[3]));
}

/** [DOC] ISO 8601 in the portal's zone, in whole seconds: 2026-08-20T09:10:29+03:00. */
export function formatDate(milliseconds: number, offset: string): string {
	const local = new Date(milliseconds + offsetMinutes(offset) * 60_000);
	return `${local.toISOString().slice(0, 19)}${offset === 'Z' ? '+00:00' : offset}`;
}

const isoDate = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?)?\s*(Z|[+-]\d{2}:?\d{2})?$/i;
const russianDate = /^(\d{2})\.(\d{2})\.(\d{4})(?: (\d{2}):(\d{2})(?::(\d{2}))?)?$/;

/**
 * A date of a filter, in milliseconds, whole seconds; undefined for what is none. [SRC] An explicit offset is honoured; without
 * one the date is in the portal's zone. A `+` that was sent unencoded in a form has become a space, and no date is left.
 */
export function parseDate(text: string, portalOffset: string): number | undefined {
	const iso = isoDate.exec(text.trim());
	const russian = iso === null ? russianDate.exec(text.trim()) : null;
	const [year, month, day, hour, minute, second] =
		iso?.slice(1, 7) ?? (russian === null ? [] : [russian[3], russian[2], russian[1], ...russian.slice(4, 7)]);
	if (year === undefined) return undefined;
	const [y, mo, d, h, mi, s] = [year, month, day, hour, minute, second].map((part) => Number(part ?? 0));
	const utc = Date.UTC(y as number, (mo as number) - 1, d, h, mi, s);
	return utc - offsetMinutes(iso?.[7]?.toUpperCase() ?? portalOffset) * 60_000;
}
