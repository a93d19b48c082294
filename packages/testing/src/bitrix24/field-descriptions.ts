import type { UserField } from './contact.js';
import { contactFields } from './contact-fields.js';
import type { Params } from './php-values.js';
import type { Portal } from './portal.js';
import { camelNameOf } from './user-fields.js';

/** `result.fields` of crm.item.fields. [DOC] */
export function itemFields(portal: Portal, originalNames: boolean): Params {
	const fields: Params = {};
	for (const field of contactFields) {
		if (field.undescribed === true) continue;
		fields[field.camel] = {
			...description(field.type, field.title, field.readOnly, field.multiple),
			...(field.camel === 'companyId' ? { isDeprecated: true } : {}),
			upperName: upperName(field.camel),
		};
	}
	fields.fm = { ...description('crm_multifield', 'FM', false, true), upperName: 'FM' };
	// [DOC] It is described, but no row has it.
	fields.companies = { ...description('crm_company', 'COMPANIES', false, true), upperName: 'COMPANIES' };
	for (const field of portal.fields) {
		const name = originalNames ? field.name : camelNameOf(field);
		fields[name] = { ...userFieldDescription(field), upperName: field.name };
	}
	return fields;
}

function description(type: string, title: string, readOnly = false, multiple = false): Params {
	return {
		type,
		isRequired: false,
		isReadOnly: readOnly,
		isImmutable: false,
		isMultiple: multiple,
		isDynamic: false,
		title,
	};
}

/** [DOC] The options of a list carry their ids as text. */
function userFieldDescription(field: UserField): Params {
	const label = field.title ?? field.name;
	return {
		...description(field.type, label, false, field.multiple),
		isDynamic: true,
		...(field.type === 'enumeration'
			? { items: (field.items ?? []).map(({ id, value }) => ({ ID: String(id), VALUE: value })) }
			: {}),
		listLabel: label,
		formLabel: label,
		filterLabel: label,
	};
}

function upperName(camel: string): string {
	return camel.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}
