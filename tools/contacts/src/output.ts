export interface OutputOptions {
	json?: boolean;
}

/** Prints records: as a JSON array, or as a table with the fields' names as its head. */
export function printRecords(records: readonly object[], columns: string[], { json = false }: OutputOptions): void {
	if (json) {
		process.stdout.write(`${JSON.stringify(records, null, 2)}\n`);
		return;
	}
	const rows = [
		columns,
		...records.map((record) => columns.map((column) => cell((record as Record<string, unknown>)[column]))),
	];
	const widths = columns.map((_, index) => Math.max(...rows.map((row) => row[index]?.length ?? 0)));
	for (const row of rows) {
		process.stdout.write(
			`${row
				.map((text, index) => text.padEnd(widths[index] ?? 0))
				.join('  ')
				.trimEnd()}\n`,
		);
	}
}

function cell(value: unknown): string {
	if (value === null || value === undefined) return '-';
	return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Prints one record: as JSON, or as a sentence. */
export function printResult(record: object, sentence: string, { json = false }: OutputOptions): void {
	process.stdout.write(json ? `${JSON.stringify(record)}\n` : `${sentence}\n`);
}
