import { UnsupportedDatabaseError } from './errors.js';

/** A row on whether the product can use the database, for `rejectUnsupported`. Any role may read it. */
export const databaseSupport = `
	select current_setting('server_encoding') as encoding, 'public' = any (current_schemas(false)) as has_public`;

export interface DatabaseSupport {
	/** In another one than UTF-8 some names can't be stored, or bytes count as characters. */
	encoding: string;
	/** Whether names without a schema are found in `public`. */
	has_public: boolean;
}

/** @throws UnsupportedDatabaseError */
export function rejectUnsupported({ encoding, has_public: hasPublic }: DatabaseSupport): void {
	if (encoding !== 'UTF8')
		throw new UnsupportedDatabaseError(
			`The database has the encoding ${encoding}, but it must be UTF8: create another one with "create database NAME template template0 encoding 'UTF8' locale 'C'".`,
		);
	if (!hasPublic)
		throw new UnsupportedDatabaseError(
			'The search_path of the database or its user lacks the schema public: reset it with "alter database NAME reset search_path" and "alter role NAME reset search_path".',
		);
}
