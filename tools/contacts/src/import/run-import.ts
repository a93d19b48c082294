import { basename } from 'node:path';
import { recordOperation } from '@contacts/common/auth/projects.sql.js';
import { isCountry } from '@contacts/company-contacts/phone.js';
import { pruneTombstones } from '@contacts/company-contacts/save-company-contacts.sql.js';
import { withDatabase } from '../connection.js';
import { UsageError } from '../errors.js';
import { type OutputOptions, printNote, printResult } from '../output.js';
import { markIncomplete } from '../streams.js';
import { type ImportOptions, type ImportSummary, importRecords } from './import-file.js';
import { readCsv } from './read-csv.js';
import { readJsonArray, readNdjson } from './read-json.js';
import { withSourceFile } from './source-file.js';

const readers = { csv: readCsv, json: readJsonArray, ndjson: readNdjson };

export interface ImportCommandOptions extends OutputOptions {
	format?: keyof typeof readers;
	country?: string;
	dryRun?: boolean;
}

/** `contacts import` */
export async function runImport(
	environment: NodeJS.ProcessEnv,
	path: string,
	options: ImportCommandOptions,
): Promise<void> {
	const summary = await importPath(environment, path, options);
	printResult(summary, describe(summary, options.dryRun ?? false), options);
	if (summary.refused > 0) markIncomplete();
}

async function importPath(
	environment: NodeJS.ProcessEnv,
	path: string,
	options: ImportCommandOptions,
): Promise<ImportSummary> {
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
			const record = ({ reasons: _, ...counts }: ImportSummary, isComplete: boolean) =>
				recordOperation(sql, 'contacts imported', {
					file: basename(path),
					...counts,
					...(isComplete ? {} : { broken_off: true }),
				});
			// A killed import has saved some contacts, and never records its counts.
			await recordOperation(sql, 'contacts import started', { file: basename(path) });
			const onBrokenOff = (summary: ImportSummary) => record(summary, false);
			const summary = await importRecords(sql, records, { ...work, onBrokenOff });
			await record(summary, true);
			// Without a CRM no synchroniser does it.
			await pruneTombstones(sql);
			return summary;
		});
	});
}

function describe(summary: ImportSummary, dryRun: boolean): string[] {
	const { records, accepted, refused, created, changed, reasons } = summary;
	const written = dryRun ? 'nothing was written' : `${created} contacts new, ${changed} changed`;
	const list = Object.entries(reasons).map(([reason, times]) => `  ${times} × ${reason}`);
	return [`${records} records: ${accepted} good, ${refused} refused; ${written}.`, ...list];
}
