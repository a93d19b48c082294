import { ConfigError, readVariables } from '@contacts/common/process/config.js';
import { type CrmConfig, crmVariables, toCrmConfig } from '@contacts/crm-sync/config.js';

/** @returns the connection to the CRM, or a line for each variable that is wrong */
export function readCrmConfig(environment: NodeJS.ProcessEnv): CrmConfig | string[] {
	try {
		return toCrmConfig(readVariables(crmVariables, environment));
	} catch (error) {
		if (error instanceof ConfigError) return error.lines;
		throw error;
	}
}
