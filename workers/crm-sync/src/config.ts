import { isCountry } from '@contacts/common/contacts/phone.js';
import type { BucketPolicy } from '@contacts/common/http/token-bucket.js';
import { integerVariable, serviceVariables } from '@contacts/common/process/config.js';
import { type Static, Type } from '@sinclair/typebox';
import { policies } from './bitrix24/client.js';
import type { FieldCodes } from './bitrix24/contact.js';
import type { MappingOptions } from './mapping.js';

const fieldCode = (meaning: string) =>
	Type.Optional(
		Type.String({
			pattern: '^UF_CRM_[A-Z0-9_]{1,50}$',
			allowed: 'the code of a custom field, UF_CRM_…',
			description: meaning,
		}),
	);

/** The connection of the mirror to the CRM. */
export const crmVariables = Type.Object({
	BITRIX24_WEBHOOK_URL: Type.String({
		accepts: isWebhook,
		allowed: 'an inbound webhook, https://HOST/rest/USER/SECRET/ (http for a loopback host only)',
		description: 'the CRM to read; it is a secret and appears in no log',
	}),
	BITRIX24_PLAN: Type.String({
		enum: ['standard', 'enterprise'],
		default: 'standard',
		allowed: 'standard or enterprise',
		description: 'the CRM’s limits: 2 requests a second and 50 at once, or 5 and 250',
	}),
	BITRIX24_UF_TROUBLE: fieldCode(
		'custom field that says whether a contact is a problem; without it `trouble_contact` stays null',
	),
	BITRIX24_UF_REASON: fieldCode('custom field that says why; without it `perplexity_reason` stays null'),
	BITRIX24_TROUBLE_OPTIONS: Type.Optional(
		Type.String({
			allowed: 'IDs or labels of list options, separated by commas',
			description: 'where the first field is a list: the options that mean trouble',
		}),
	),
	BITRIX24_DEFAULT_COUNTRY: Type.Optional(
		Type.String({
			pattern: '^[A-Z]{2}$',
			accepts: isCountry,
			allowed: 'an ISO country code such as DE',
			description: 'country of phones without a plus; without it only numbers with a plus are accepted',
		}),
	),
	BITRIX24_INTERVAL_SECONDS: integerVariable(5, 86_400, 300, 'seconds between two sync runs'),
});

/** The variables of the synchroniser as a separate process. */
export const variables = Type.Composite([
	Type.Omit(serviceVariables(3002), ['DATABASE_POOL_SIZE']),
	crmVariables,
	Type.Object({
		BITRIX24_APPLICATION_TOKEN: Type.Optional(
			Type.String({
				minLength: 32,
				allowed: 'the application token of an outgoing webhook, at least 32 characters',
				description: 'switches the webhook for events on',
			}),
		),
	}),
]);

export interface CrmConfig {
	webhookUrl: string;
	policy: BucketPolicy;
	codes: FieldCodes;
	mapping: MappingOptions;
	/** The time between two runs. */
	intervalMs: number;
}

export function toCrmConfig(values: Static<typeof crmVariables>): CrmConfig {
	const country = values.BITRIX24_DEFAULT_COUNTRY;
	return {
		webhookUrl: values.BITRIX24_WEBHOOK_URL,
		policy: policies[values.BITRIX24_PLAN as keyof typeof policies],
		codes: { trouble: values.BITRIX24_UF_TROUBLE, reason: values.BITRIX24_UF_REASON },
		mapping: {
			country: country !== undefined && isCountry(country) ? country : undefined,
			troubleOptions: new Set(values.BITRIX24_TROUBLE_OPTIONS?.split(',').map((option) => option.trim())),
		},
		intervalMs: values.BITRIX24_INTERVAL_SECONDS * 1000,
	};
}

function isWebhook(text: string): boolean {
	if (!URL.canParse(text)) return false;
	const { protocol, hostname, href, origin, pathname } = new URL(text);
	const isAllowedProtocol = protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname));
	// With a user, a query or a fragment the address of a method would be another one.
	return isAllowedProtocol && href === origin + pathname && /^\/rest\/\d+\/[^/]+\/?$/.test(pathname);
}

export function isLoopback(hostname: string): boolean {
	return /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}
