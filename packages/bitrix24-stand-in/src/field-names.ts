import type { UserField } from './contact.js';

/**
 * The name of a contact's custom field in crm.item.*. [DOC] Underscores stay between numbers and go elsewhere; a name that
 * mixes letters and digits so that the way back would be lost stays as it is: UF_CRM_1747309879 is ufCrm_1747309879,
 * UF_CRM_3_1747309727 is ufCrm3_1747309727, UF_CRM_3_DIGIT is ufCrm3Digit, UF_CRM_3_DIGIT10 is ufCrm_3_DIGIT10.
 */
export function camelNameOf(field: UserField): string {
	const rest = field.name.replace(/^UF_CRM_/, '');
	const parts = rest.split('_');
	const ambiguous = parts.some(
		(part, index) => /[a-z]\d|\d[a-z]/i.test(part) || (/\d$/.test(part) && /[a-z]$/i.test(parts[index - 1] ?? '')),
	);
	if (ambiguous || parts.length === 1) return `ufCrm${/^\d/.test(rest) || ambiguous ? `_${rest}` : capitalised(rest)}`;
	return parts.reduce((name, part, index) => {
		if (/^\d/.test(part)) return `${name}${index === 0 ? '' : '_'}${part}`;
		return `${name}${capitalised(part)}`;
	}, 'ufCrm');
}

function capitalised(word: string): string {
	return word.charAt(0).toUpperCase() + word.slice(1).toLowerCase();
}
