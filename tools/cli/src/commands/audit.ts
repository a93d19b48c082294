import type { Command } from 'commander';
import { positiveInteger } from '../arguments.js';
import { withDatabase } from '../connection.js';
import { readAudit } from '../sql/audit.sql.js';
import { checkProject } from '../sql/keys.sql.js';
import { type Context, examples, type OutputOptions } from '../terminal/output.js';
import { textOf } from '../terminal/table.js';

export function addAuditCommand(program: Command, { environment, output }: Context): void {
	program
		.command('audit')
		.argument('[code]', 'only of this project')
		.description('list the audit log: who did what, and when, newest first')
		.option('--limit <number>', 'maximum number of rows', positiveInteger('--limit'), 100)
		.option('--json', 'print JSON, with the database role of each row')
		.addHelpText('after', examples('contacts audit acme', 'contacts audit --limit 1000 --json > audit.json'))
		.action(async (code: string | undefined, { limit, ...options }: OutputOptions & { limit: number }) => {
			const rows = await withDatabase(environment, async (sql) => {
				if (code !== undefined) await checkProject(sql, code);
				return readAudit(sql, limit, code);
			});
			const shown = options.json ? rows : rows.map((row) => ({ ...row, details: linesOf(row.details) }));
			output.records(shown, ['at', 'actor', 'action', 'project', 'key_id', 'details'], options);
			if (rows.length === limit) output.note(`Only the newest ${limit} rows are shown: --limit shows more.`);
		});
}

/** Each detail as a line. What is null was not given. */
const linesOf = (details: Record<string, unknown>): string[] =>
	Object.entries(details).flatMap(([name, value]) => (value === null ? [] : [`${name}: ${describeDetail(value)}`]));

/** A value, or the old and the new value of a change. */
function describeDetail(value: unknown): string {
	const isChange = typeof value === 'object' && value !== null && 'from' in value && 'to' in value;
	return isChange ? `${textOf(value.from ?? 'none')} -> ${textOf(value.to ?? 'none')}` : textOf(value);
}
