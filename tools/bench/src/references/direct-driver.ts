/** The driver alone: one loop per connection, each with one statement after the other. */
import { createClient } from '@contacts/common/database/client.js';
import { runSingleStatement, singleStatementValues } from './single-statement.sql.js';

export interface DriverOrder {
	databaseUrl: string;
	clients: number;
	/** The highest chat ID of the upserts. */
	chats: number;
	warmUpSeconds: number;
	seconds: number;
}

export type DriverMessage = { statements: number; seconds: number } | { failure: string };

process.once('message', (order: DriverOrder) => {
	work(order).then(tell, (error: Error) => tell({ failure: error.message }));
});
process.once('disconnect', () => process.exit(0));

async function work({ databaseUrl, clients, chats, warmUpSeconds, seconds }: DriverOrder): Promise<DriverMessage> {
	const sql = createClient({ url: databaseUrl, applicationName: 'bench', poolSize: clients });
	async function run(milliseconds: number): Promise<number> {
		const until = performance.now() + milliseconds;
		let statements = 0;
		const loop = async () => {
			while (performance.now() < until) {
				const chat_id = 1 + Math.floor(Math.random() * chats);
				await runSingleStatement(sql, { ...singleStatementValues, chat_id });
				statements++;
			}
		};
		await Promise.all(Array.from({ length: clients }, loop));
		return statements;
	}
	await run(warmUpSeconds * 1000);
	const begun = performance.now();
	const statements = await run(seconds * 1000);
	return { statements, seconds: (performance.now() - begun) / 1000 };
}

function tell(message: DriverMessage): void {
	process.send?.(message);
}
