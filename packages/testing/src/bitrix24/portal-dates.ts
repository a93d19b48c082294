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

const isoDate = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?)(?:\.\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?$/i;

/**
 * A date in a filter, in milliseconds since the epoch without fractions of a second; undefined for any other text. [SRC]
 * An explicit offset is honoured; without one the date is in the portal's zone. A `+` that was sent unencoded in a form
 * has become a space, so the text is no date.
 */
export function parseDate(text: string, portalOffset: string): number | undefined {
	const [, day, time = '00:00', offset = portalOffset] = isoDate.exec(text.trim()) ?? [];
	return day === undefined ? undefined : Date.parse(`${day}T${time}Z`) - offsetMinutes(offset.toUpperCase()) * 60_000;
}
