import { readFileSync } from 'node:fs';

/** The version of this release: that of all its packages. */
export const version = (
	JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
).version;
