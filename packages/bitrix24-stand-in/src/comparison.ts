import { toInteger, toList } from './php-values.js';
import { parseDate } from './portal-dates.js';

/** What a field's values are compared as. */
export type Kind = 'integer' | 'datetime' | 'string';

export type Operator = '=' | '!=' | '>' | '>=' | '<' | '<=' | '@' | '!@' | '%' | '!%' | '=%' | '!=%';

const prefixes: [string, Operator][] = [
	['!=%', '!=%'],
	['!%=', '!=%'],
	['!@', '!@'],
	['!%', '!%'],
	['!=', '!='],
	['>=', '>='],
	['<=', '<='],
	['=%', '=%'],
	['%=', '=%'],
	['>', '>'],
	['<', '<'],
	['@', '@'],
	['%', '%'],
	['=', '='],
	['!', '!='],
];

/** Takes the operator off a filter's key: ">=updatedTime". [DOC] */
export function splitKey(key: string): { operator: Operator; name: string } {
	const [prefix, operator] = prefixes.find(([start]) => key.startsWith(start)) ?? ['', '='];
	return { operator: operator as Operator, name: key.slice(prefix.length) };
}

type Comparable = string | number | null;
type Test = (value: Comparable) => boolean;

/** A test of a field's value; undefined when the filter's value is empty or can't be read as this kind. */
export function makeTest(operator: Operator, wanted: unknown, kind: Kind, utcOffset: string): Test | undefined {
	// [INF] A list stands for IN with the plain operators as well.
	if (Array.isArray(wanted) && (operator === '=' || operator === '!=')) {
		return makeTest(operator === '=' ? '@' : '!@', wanted, kind, utcOffset);
	}
	if (operator === '@' || operator === '!@') {
		const list = new Set(toList(wanted).map((value) => coerce(value, kind, utcOffset)));
		return operator === '@' ? (value) => list.has(fold(value)) : (value) => !list.has(fold(value));
	}
	if (operator.includes('%')) return likeTest(operator, String(wanted ?? ''));
	const operand = coerce(wanted, kind, utcOffset);
	if (operand === undefined) return undefined;
	// [DOC] `!=name: ""` is how one asks for a name: empty is what is null too.
	const isEmpty: Test = (value) => value === null || value === '';
	if (operator === '=') return operand === null || operand === '' ? isEmpty : (value) => fold(value) === operand;
	if (operator === '!=') {
		return operand === null || operand === '' ? (value) => !isEmpty(value) : (value) => fold(value) !== operand;
	}
	return orderTest(operator, operand);
}

function orderTest(operator: Operator, operand: Comparable): Test {
	return (value) => {
		const folded = fold(value);
		// [INF] As in SQL: null is neither above nor below.
		if (folded === null || operand === null) return false;
		if (operator === '>') return folded > operand;
		if (operator === '>=') return folded >= operand;
		return operator === '<' ? folded < operand : folded <= operand;
	};
}

/** [DOC] `%` looks for a part anywhere; with `=` the value brings its own `%`. */
function likeTest(operator: Operator, wanted: string): Test {
	const pattern = operator.includes('=') ? wanted : `%${wanted}%`;
	const source = pattern
		.split('%')
		.map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
		.join('.*');
	const expression = new RegExp(`^${source}$`, 'isu');
	const negated = operator.startsWith('!');
	return (value) => expression.test(String(value ?? '')) !== negated;
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
