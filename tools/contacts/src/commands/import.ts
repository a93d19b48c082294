import { basename } from 'node:path';
import { recordOperation } from '@contacts/common/auth/projects.sql.js';
import { contactColumnNames } from '@contacts/company-contacts/company-contact-columns.js';
import { isCountry } from '@contacts/company-contacts/phone.js';
import { type Command, Option } from 'commander';
import { withDatabase } from '../connection.js';
import { UsageError } from '../errors.js';
import { examples } from '../examples.js';
import { type ImportOptions, type ImportSummary, importRecords } from '../import/import-file.js';
import { readCsv } from '../import/read-csv.js';
import { readJsonArray, readNdjson } from '../import/read-json.js';
import { withSourceFile } from '../import/source-file.js';
import { type OutputOptions, printNote, printResult } from '../output.js';
import { markIncomplete } from '../streams.js';

const readers = { csv: readCsv, json: readJsonArray, ndjson: readNdjson };

interface Options extends OutputOptions {
	format?: keyof typeof readers;
	country?: string;
	dryRun?: boolean;
}

export function addImportCommand(program: Command, environment: NodeJS.ProcessEnv): void {
	program
		.command('import')
		.argument('<file>', 'CSV, JSON (an array) or NDJSON, in UTF-8')
		.description('add and change company contacts from a file, known by their bitrix_id')
		.addOption(new Option('--format <format>', 'where the file name does not tell').choices(Object.keys(readers)))
		.option('--country <code>', 'take phone numbers without a plus as of this country (ISO code, such as DE)')
		.option('--dry-run', 'check every record and write nothing')
		.option('--json', 'print the summary as JSON')
		.addHelpText(
			'after',
			`\nFields: bitrix_id (required), ${contactColumnNames.join(', ')}.\n` +
				'A column or field that the file lacks keeps what is stored; an empty one clears it. trouble_contact is "true" or empty.\n' +
				'A record that is wrong is reported with its line and left out; the others are saved, and the exit code is 1. Running\n' +
				'it again changes nothing that is stored already.\n' +
				examples('contacts import contacts.csv --dry-run', 'contacts import export.ndjson --country DE'),
		)
		.action(async (path: string, options: Options) => {
			const summary = await importPath(environment, path, options);
			printResult(summary, describe(summary, options.dryRun ?? false), options);
			if (summary.refused > 0) markIncomplete();
		});
}

async function importPath(environment: NodeJS.ProcessEnv, path: string, options: Options): Promise<ImportSummary> {
	const country = options.country?.toUpperCase();
	if (country !== undefined && !isCountry(country))
		throw new UsageError('--country takes an ISO country code, such as DE.');
	const formats = Object.keys(readers) as (keyof typeof readers)[];
	return withSourceFile(path, formats, options.format, async ({ format, chunks, onRecord }) => {
		const records = readers[format](chunks);
		const work: ImportOptions = {
			...(country === undefined ? {} : { country }),
			dryRun: options.dryRun ?? false,
			onRecordError: (line, reason) => printNote(`line ${line}: ${reason}`),
			onRecord,
		};
		if (work.dryRun) return importRecords(undefined, records, work);
		return withDatabase(environment, async (sql) => {
			const { reasons, ...summary } = await importRecords(sql, records, work);
			await recordOperation(sql, 'contacts imported', { file: basename(path), ...summary });
			return { ...summary, reasons };
		});
	});
}

function describe(summary: ImportSummary, dryRun: boolean): string[] {
	const { records, accepted, refused, created, changed, reasons } = summary;
	const written = dryRun ? 'nothing was written' : `${created} contacts new, ${changed} changed`;
	const list = Object.entries(reasons).map(([reason, times]) => `  ${times} × ${reason}`);
	return [`${records} records: ${accepted} good, ${refused} refused; ${written}.`, ...list];
}
