import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError, databaseUrlVariable, integerVariable, readVariables } from '@contacts/common/process/config.js';
import { Type } from '@sinclair/typebox';

export const root = fileURLToPath(new URL('../../..', import.meta.url));

export const variables = Type.Object({
	PERSONAL_CONTACTS_PORT: integerVariable(1, 65_535, 3001, 'port of personal-contacts on 127.0.0.1'),
	COMPANY_CONTACTS_PORT: integerVariable(1, 65_535, 3000, 'port of company-contacts on 127.0.0.1'),
	DATABASE_URL: Type.Optional(
		databaseUrlVariable(
			'this PostgreSQL (15 or newer) instead of the embedded one, with the roles of packages/migrations/owner.sql; it is migrated, and gets no demo data',
		),
	),
	LOCAL_DATA_DIR: Type.String({
		default: '.local',
		allowed: 'a folder',
		description: 'folder of the embedded database',
	}),
});

export interface Settings {
	personalPort: number;
	companyPort: number;
	/** The user's own database. Undefined: the embedded one. */
	databaseUrl: string | undefined;
	/** Absolute path. */
	dataFolder: string;
}

/** @throws ConfigError */
export function readSettings(environment: NodeJS.ProcessEnv): Settings {
	const values = readVariables(variables, environment);
	if (values.PERSONAL_CONTACTS_PORT === values.COMPANY_CONTACTS_PORT) {
		throw new ConfigError([
			'PERSONAL_CONTACTS_PORT and COMPANY_CONTACTS_PORT are the same: each service needs its own.',
		]);
	}
	return {
		personalPort: values.PERSONAL_CONTACTS_PORT,
		companyPort: values.COMPANY_CONTACTS_PORT,
		databaseUrl: values.DATABASE_URL,
		dataFolder: resolve(root, values.LOCAL_DATA_DIR),
	};
}
