import type { Kind } from './comparison.js';
import type { StandInContact } from './contact.js';
import { type ContactField, contactFields } from './contact-fields.js';
import type { Portal } from './portal.js';
import { camelNameOf, comparableValue } from './user-fields.js';

/** A field that a list can be filtered and ordered by. */
export interface Comparable {
	name: string;
	kind: Kind;
	value(contact: StandInContact): unknown;
}

/** Finds a field by its name in a request. */
export type Lookup = (name: string) => Comparable | undefined;

const byCamelName = new Map(contactFields.map((field) => [field.camel, comparable(field.camel, field)]));
const byClassicName = new Map(
	contactFields.filter((field) => field.classic !== '').map((field) => [field.classic, comparable(field.camel, field)]),
);

/** The fields of crm.item.list. [DOC] Custom fields go by their original names only when these are asked for. */
export function itemLookup(portal: Portal, originalNames: boolean): Lookup {
	return (name) => {
		const standard = byCamelName.get(name);
		if (standard !== undefined) return standard;
		if (portal.switches.itemUpperCaseNames === 'accepted' && byClassicName.has(name)) return byClassicName.get(name);
		return userField(portal, name, originalNames);
	};
}

/** The fields of crm.contact.list. [DOC] Its multifields are found by their exact values. */
export function classicLookup(portal: Portal): Lookup {
	return (name) => {
		if (name === 'PHONE' || name === 'EMAIL') {
			const key = name === 'PHONE' ? 'phones' : 'emails';
			return { name, kind: 'string', value: (contact) => (contact[key] ?? []).map((field) => field.value) };
		}
		return byClassicName.get(name) ?? userField(portal, name, true);
	};
}

function userField(portal: Portal, name: string, originalNames: boolean): Comparable | undefined {
	const field = portal.fields.find((one) => (originalNames ? one.name : camelNameOf(one)) === name);
	if (field === undefined) return undefined;
	return {
		name,
		kind: field.type === 'string' ? 'string' : 'integer',
		value: (contact) => comparableValue(contact, field),
	};
}

function comparable(name: string, field: ContactField): Comparable {
	const integers = ['integer', 'user', 'crm_company', 'crm_category', 'crm_lead'];
	const kind: Kind = field.type === 'datetime' ? 'datetime' : integers.includes(field.type) ? 'integer' : 'string';
	return {
		name,
		kind,
		value: (contact) => {
			const value = field.value(contact);
			if (value instanceof Date) return value.getTime();
			return typeof value === 'boolean' ? (value ? 'Y' : 'N') : value;
		},
	};
}
