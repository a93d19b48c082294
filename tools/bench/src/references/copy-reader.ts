/** The fastest that PostgreSQL can deliver the list: COPY, which the driver reads and discards. */
import postgres from 'postgres';
import { copiesOfTheList } from '../data.sql.js';

export interface CopyTransfer {
	bytes: number;
	/** Milliseconds from the statement until the first byte, and until the end. */
	firstByte: number;
	milliseconds: number;
}

process.once('message', ({ databaseUrl, of }: { databaseUrl: string; of: keyof typeof copiesOfTheList }) => {
	read(databaseUrl, copiesOfTheList[of]).then(tell, (error: Error) =>
		tell({ failure: `COPY failed: ${error.message}` }),
	);
});
process.once('disconnect', () => process.exit(0));

async function read(databaseUrl: string, copy: string): Promise<CopyTransfer> {
	const sql = postgres(databaseUrl, { max: 1, fetch_types: false });
	// The service's connections are also open before a request comes.
	await sql`select 1`;
	const begun = performance.now();
	let bytes = 0;
	let firstByte = 0;
	const rows = await sql.unsafe(copy).readable();
	for await (const chunk of rows) {
		if (bytes === 0) firstByte = performance.now() - begun;
		bytes += (chunk as Buffer).length;
	}
	return { bytes, firstByte, milliseconds: performance.now() - begun };
}

function tell(message: CopyTransfer | { failure: string }): void {
	process.send?.(message);
}
