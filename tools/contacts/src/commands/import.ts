import { open } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { recordOperation } from '@contacts/common/auth/projects.sql.js';
import { contactColumnNames } from '@contacts/company-contacts/company-contact-columns.js';
import { isCountry } from '@contacts/company-contacts/phone.js';
import { type Command, Option } from 'commander';
import { withDatabase } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { examples } from '../examples.js';
import { type ImportOptions, type ImportSummary, importRecords } from '../import/import-file.js';
import { readCsv } from '../import/read-csv.js';
import { readJsonArray, readNdjson } from '../import/read-json.js';
import { type OutputOptions, printNote, printResult } from '../output.js';
import { createProgress } from '../progress.js';
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
	const format = options.format ?? extname(path).slice(1).toLowerCase().replace('jsonl', 'ndjson');
	if (!Object.hasOwn(readers, format))
		throw new UsageError('The file name does not end in .csv, .json or .ndjson: say --format.');
	const country = options.country?.toUpperCase();
	if (country !== undefined && !isCountry(country))
		throw new UsageError('--country takes an ISO country code, such as DE.');

	const file = await open(path).catch((error: NodeJS.ErrnoException) => {
		throw new CommandError(
			error.code === 'ENOENT' ? `There is no file ${path}.` : `${path} can't be read (${error.code}).`,
		);
	});
	try {
		const stats = await file.stat();
		if (stats.isDirectory()) throw new CommandError(`${path} is a folder.`);
		const progress = createProgress(stats.size);
		let bytes = 0;
		async function* chunks(): AsyncGenerator<Buffer> {
			for await (const chunk of file.createReadStream({ autoClose: false })) {
				bytes += chunk.length;
				yield chunk;
			}
		}
		const records = readers[format as keyof typeof readers](chunks());
		const work: ImportOptions = {
			...(country === undefined ? {} : { country }),
			dryRun: options.dryRun ?? false,
			onRecordError: (line, reason) => printNote(`line ${line}: ${reason}`),
			onRecord: (count) => progress.update(bytes, count),
		};
		try {
			if (work.dryRun) return await importRecords(undefined, records, work);
			return await withDatabase(environment, async (sql) => {
				const { reasons, ...summary } = await importRecords(sql, records, work);
				await recordOperation(sql, 'contacts imported', { file: basename(path), ...summary });
				return { ...summary, reasons };
			});
		} finally {
			progress.stop();
		}
	} finally {
		await file.close();
	}
}

function describe(summary: ImportSummary, dryRun: boolean): string[] {
	const { records, accepted, refused, created, changed, reasons } = summary;
	const written = dryRun ? 'nothing was written' : `${created} contacts new, ${changed} changed`;
	const list = Object.entries(reasons).map(([reason, times]) => `  ${times} × ${reason}`);
	return [`${records} records: ${accepted} good, ${refused} refused; ${written}.`, ...list];
}
