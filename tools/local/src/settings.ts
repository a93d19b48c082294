import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { integerVariable, readVariables, urlVariable } from '@contacts/common/config.js';
import { Type } from '@sinclair/typebox';

export const root = fileURLToPath(new URL('../../..', import.meta.url));

const variables = Type.Object({
	PERSONAL_CONTACTS_PORT: integerVariable(1, 65_535, 3001, 'port of personal-contacts'),
	COMPANY_CONTACTS_PORT: integerVariable(1, 65_535, 3000, 'port of company-contacts'),
	DATABASE_URL: Type.Optional(
		urlVariable(['postgres:', 'postgresql:'], 'a URL like postgres://user:password@host:5432/database'),
	),
	LOCAL_DATA_DIR: Type.String({ default: '.local', allowed: 'a folder' }),
});

export interface Settings {
	personalPort: number;
	companyPort: number;
	/** A database of the user's own; undefined: the embedded one. */
	databaseUrl: string | undefined;
	/** Absolute path. */
	dataFolder: string;
}

/** @throws ConfigError */
export function readSettings(environment: NodeJS.ProcessEnv): Settings {
	const values = readVariables(variables, environment);
	return {
		personalPort: Number(values.PERSONAL_CONTACTS_PORT),
		companyPort: Number(values.COMPANY_CONTACTS_PORT),
		databaseUrl: values.DATABASE_URL,
		dataFolder: resolve(root, values.LOCAL_DATA_DIR),
	};
}
