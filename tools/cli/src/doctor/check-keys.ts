import type { Sql } from '@contacts/common/database/client.js';
import { type Finding, findingsOf } from './check.js';
import { type KeyToCheck, readKeysToCheck } from './doctor.sql.js';

/** A client needs some days to receive and install a new key. */
const daysBeforeExpiry = 14;

const daysUnused = 90;

/** Keys to name. Further ones are only counted. */
const maxNamed = 10;

/** Whether clients will need new keys soon, and whether there are keys that nobody seems to need. */
export async function checkKeys(sql: Sql): Promise<Finding[]> {
	const { found, ok, warning } = findingsOf('keys');
	const keys = await readKeysToCheck(sql, { daysBeforeExpiry, daysUnused });
	const expiring = keys.filter(({ expires_soon }) => expires_soon);
	if (expiring.length > 0)
		warning(
			`Expire within ${daysBeforeExpiry} days: ${listOf(expiring, ({ expires_at }) => `at ${expires_at}`)}.`,
			'For each that is still needed: contacts key rotate ID',
		);
	const unused = keys.filter(({ is_unused }) => is_unused);
	if (unused.length > 0)
		warning(
			`Unused for ${daysUnused} days: ${listOf(unused, ({ last_used_at }) => (last_used_at === null ? 'never used' : `last at ${last_used_at}`))}.`,
			'Ask the client, and for each that is not needed: contacts key revoke ID',
		);
	if (found.length === 0)
		ok(`No key expires within ${daysBeforeExpiry} days, and none is unused for ${daysUnused} days.`);
	return found;
}

function listOf(keys: readonly KeyToCheck[], when: (key: KeyToCheck) => string): string {
	const named = keys.slice(0, maxNamed).map((key) => `${key.id} of ${key.project} (${when(key)})`);
	const more = keys.length - named.length;
	return named.join(', ') + (more > 0 ? ` and ${more} more` : '');
}
