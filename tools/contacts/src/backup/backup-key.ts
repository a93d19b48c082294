import { createHmac } from 'node:crypto';
import { UsageError } from '../errors.js';

/** A secret that makes the last hash of a backup one that nobody else can compute. */
export interface BackupKey {
	secret: string;
	/** Names the key in a header, so that another one is refused before anything is read. It tells nothing of the secret. */
	id: string;
}

/**
 * The key in `BACKUP_KEY`; undefined where that is not set.
 *
 * @throws UsageError when it is no key
 */
export function readBackupKey({ BACKUP_KEY: secret }: NodeJS.ProcessEnv): BackupKey | undefined {
	if (!secret) return undefined;
	if (!/^[\x21-\x7e]{32,512}$/.test(secret)) {
		throw new UsageError(
			'BACKUP_KEY must be 32 to 512 printable ASCII characters without spaces: "openssl rand -hex 32" makes one.',
		);
	}
	return { secret, id: createHmac('sha256', secret).update('contacts-backup key').digest('hex').slice(0, 16) };
}
