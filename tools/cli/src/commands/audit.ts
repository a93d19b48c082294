import type { Command } from '../command.js';
import { withDatabase } from '../connection.js';
import { parseLimit } from '../numbers.js';
import { type OutputOptions, printNote, printRecords } from '../output.js';
import { readPages } from '../pages.js';
import { checkProject } from '../projects.js';
import { type AuditRow, readAudit } from '../projects.sql.js';

export function addAuditCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('audit')
		.argument('[code]', 'only of this project')
		.description('list the audit log: who did what, and when, in UTC; newest first')
		.option('--limit <number>', 'maximum number of rows', '100')
		.option('--json', 'print the records as JSON, with the database role of each')
		.examples('contacts audit acme', 'contacts audit --limit 1000 --json > audit.json')
		.action(async (code: string | undefined, { limit, ...options }: OutputOptions & { limit: string }) => {
			let left = parseLimit(limit);
			await withDatabase(environment, async (sql) => {
				if (code !== undefined) await checkProject(sql, code);
				// One more, which tells whether there are older ones.
				const pages = readPages<AuditRow>(left + 1, (last, size) => readAudit(sql, size, code, last?.id));
				const columns = ['at', 'actor', 'action', 'project', 'key_id', 'details'];
				async function* records() {
					for await (const page of pages) {
						yield page.slice(0, left).map((row) => recordOf(row, options.json ?? false));
						left -= page.length;
					}
				}
				await printRecords(records(), columns, options);
				if (left < 0) printNote(`There are older rows: --limit shows more than the newest ${limit}.`);
			});
		});
}

/** Without the position in the log; for a table with details that people can read, and the time to the second. */
function recordOf({ id, at, details, ...row }: AuditRow, json: boolean): object {
	if (json) return { at, ...row, details };
	return { at: at.slice(0, 19).replace('T', ' '), ...row, details: describeDetails(details) };
}

/** Such as `service: none -> personal-contacts, hash: changed`; null: no details. */
function describeDetails(details: AuditRow['details']): string | null {
	const parts = Object.entries(details).map(
		([name, value]) => `${name}: ${isChange(value) ? `${text(value.from)} -> ${text(value.to)}` : text(value)}`,
	);
	return parts.length === 0 ? null : parts.join(', ');
}

const isChange = (value: unknown): value is { from: unknown; to: unknown } =>
	typeof value === 'object' && value !== null && 'from' in value && 'to' in value;

const text = (value: unknown) =>
	value === null ? 'none' : typeof value === 'object' ? JSON.stringify(value) : String(value);
