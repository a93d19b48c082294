import { ConfigError, readVariables } from '@contacts/common/process/config.js';
import { type CrmConfig, crmVariables, toCrmConfig } from '@contacts/crm-sync/config.js';
import type { MirrorConfiguration } from '@contacts/crm-sync/mirror-configuration.js';

/**
 * @param mirror what a variable that is not set means: as the mirror has it. Null: it means that there is none
 * @returns the connection to the CRM, or a line for each variable that is wrong
 */
export function readCrmConfig(
	environment: NodeJS.ProcessEnv,
	mirror: MirrorConfiguration | null = null,
): CrmConfig | string[] {
	const stored: NodeJS.ProcessEnv = {
		BITRIX24_UF_TROUBLE: mirror?.trouble_field ?? '',
		BITRIX24_UF_REASON: mirror?.reason_field ?? '',
		BITRIX24_TROUBLE_OPTIONS: mirror?.trouble_options.join(',') ?? '',
		BITRIX24_DEFAULT_COUNTRY: mirror?.default_country ?? '',
	};
	const given = Object.entries(environment).filter(([, value]) => value);
	try {
		return toCrmConfig(readVariables(crmVariables, { ...stored, ...Object.fromEntries(given) }));
	} catch (error) {
		if (error instanceof ConfigError) return error.lines;
		throw error;
	}
}
