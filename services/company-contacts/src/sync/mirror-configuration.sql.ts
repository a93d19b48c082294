import type { Sql } from '@contacts/common/database/client.js';
import type { MirrorConfiguration } from './mirror-configuration.js';

/** Stores what the mirror is made with from now on. What was read with another configuration is read again, in full. */
export async function saveConfiguration(sql: Sql, configuration: MirrorConfiguration): Promise<void> {
	await sql`
		with discarded as (delete from crm_sync_staging)
		update crm_sync_state
		set configuration = ${JSON.stringify(configuration)}::text::jsonb, watermark = null,
		    full_watermark = null, full_begun_at = null, full_cursor = null`;
}
