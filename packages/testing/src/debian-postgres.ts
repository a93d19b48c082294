import { readdirSync } from 'node:fs';

const folder = '/usr/lib/postgresql';

/** The major version of Debian's PostgreSQL. Its client programs are on the PATH. */
export const debianVersion = readdirSync(folder).toSorted().at(-1) as string;

/** The `installation` of that version for `startLocalPostgres`. Its user must be able to enter the folders above its data. */
export const debianInstallation = `${folder}/${debianVersion}`;
