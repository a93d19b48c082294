import { readJson } from '@contacts/common/schemas/fields.js';
import { linesOf, maxRecordLength, type SourceRecord, unreadable } from './lines.js';

/**
 * Reads NDJSON: one JSON object per line, or a JSON array with one on each line, as the command prints it.
 *
 * @throws CommandError when a line is too long. Earlier records are returned before.
 */
export async function* readNdjson(chunks: AsyncIterable<Buffer>): AsyncGenerator<SourceRecord> {
	let line = 0;
	for await (const bytes of linesOf(chunks)) {
		line++;
		if (bytes.length > maxRecordLength) throw unreadable(line, `a line is longer than ${maxRecordLength} bytes`);
		const text = bytes.toString('latin1').trim().replace(/,$/, '');
		if (['', '[', ']', '[]'].includes(text)) continue;
		const fields = readJson(Buffer.from(text, 'latin1'));
		if (typeof fields !== 'object' || fields === null || Array.isArray(fields))
			yield { line, error: 'not a JSON object in UTF-8' };
		else yield { line, fields: fields as Record<string, unknown> };
	}
}
