import { toInteger } from './php-values.js';
import { parseDate } from './portal-dates.js';

/** What a field's values are compared as. */
export type Kind = 'integer' | 'datetime' | 'string';

const operators = ['!=', '>=', '<=', '>', '<', '=', '!'] as const;
type Operator = (typeof operators)[number];

/** Splits a filter's key, such as ">=updatedTime", into operator and name. [DOC] */
export function splitKey(key: string): { operator: Operator; name: string } {
	const operator = operators.find((prefix) => key.startsWith(prefix));
	return { operator: operator ?? '=', name: key.slice(operator?.length) };
}

type Comparable = string | number | null;
type Test = (value: Comparable) => boolean;

/** A test of a field's value; undefined when the filter's value is empty or can't be read as this kind. */
export function makeTest(operator: Operator, given: unknown, kind: Kind, utcOffset: string): Test | undefined {
	const operand = coerce(given, kind, utcOffset);
	if (operand === undefined) return undefined;
	// [DOC] `!=name: ""` asks for contacts with a name: empty includes null.
	const equals: Test =
		operand === null || operand === '' ? (value) => value === null || value === '' : (value) => fold(value) === operand;
	if (operator === '=') return equals;
	if (operator === '!=' || operator === '!') return (value) => !equals(value);
	return (value) => {
		const folded = fold(value);
		// [INF] As in SQL: null is neither above nor below.
		if (folded === null || operand === null) return false;
		if (operator === '>') return folded > operand;
		if (operator === '>=') return folded >= operand;
		return operator === '<' ? folded < operand : folded <= operand;
	};
}

/** A filter's value as the field's kind; undefined for an empty or unreadable number or date, null for JSON's null. */
function coerce(value: unknown, kind: Kind, utcOffset: string): Comparable | undefined {
	if (value === null) return null;
	if (kind === 'string') return fold(String(value ?? ''));
	if (value === undefined || value === '' || typeof value === 'object') return undefined;
	if (kind === 'datetime') return parseDate(String(value), utcOffset);
	return toInteger(value);
}

/** [INF] Text is compared as the database does it: upper and lower case are the same. */
function fold(value: Comparable): Comparable {
	return typeof value === 'string' ? value.toLowerCase() : value;
}
