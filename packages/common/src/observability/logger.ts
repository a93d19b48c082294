import { createRequire } from 'node:module';
import type { FastifyBaseLogger } from 'fastify';
import { type DestinationStream, type Logger, pino } from 'pino';
import { escapeJsonLines } from './escape-controls.js';
import { openStandardOutput } from './standard-output.js';

/** The fields of an error that are logged. A PostgresError's `detail`, `where` and parameters contain values of rows. */
const safeFields = [
	'code',
	'severity',
	'severity_local',
	'routine',
	'schema_name',
	'table_name',
	'column_name',
	'constraint_name',
	'syscall',
];

/**
 * Logs one JSON line per event to standard output, or readable text if that is a terminal. No request is serialised, so no URL is.
 */
export function createLogger(options: {
	name: string;
	level: string;
	destination?: DestinationStream;
}): Logger & FastifyBaseLogger {
	const logger = pino(
		{
			name: options.name,
			level: options.level,
			timestamp: formatTime,
			// Level names, as log collectors expect them.
			formatters: { level: (level) => ({ level }) },
			serializers: { err: serialiseError, req: () => undefined, res: () => undefined },
		},
		options.destination ??
			openTerminal() ??
			openStandardOutput((dropped) =>
				logger.warn({ dropped }, 'lines of this log were dropped: standard output did not accept them'),
			),
	);
	return logger;
}

let formattedAt = Number.NaN;
let formatted = '';

/** The time as ISO 8601. Many lines of a busy process belong to the same millisecond, so it is formatted once for each. */
function formatTime(): string {
	const now = Date.now();
	if (now !== formattedAt) {
		formattedAt = now;
		formatted = `,"time":"${new Date(now).toISOString()}"`;
	}
	return formatted;
}

/**
 * Writes to a terminal, in colour if it supports that (Node checks NO_COLOR, FORCE_COLOR and TERM). The images lack the
 * optional library for this, so they write JSON to a terminal.
 */
function openTerminal(): DestinationStream | undefined {
	if (!process.stdout.isTTY) return undefined;
	try {
		const pretty = createRequire(import.meta.url)('pino-pretty') as typeof import('pino-pretty');
		const colorize = process.stdout.hasColors();
		const terminal = pretty({
			colorize,
			translateTime: 'SYS:HH:MM:ss.l',
			ignore: 'pid,hostname',
			singleLine: true,
			sync: true,
		});
		return { write: (line) => void terminal.write(showEscapes(escapeJsonLines(line))) };
	} catch {
		return undefined;
	}
}

/**
 * Doubles the backslash of JSON escapes, except for line breaks and tabs. Otherwise the character itself would reach the
 * terminal.
 */
function showEscapes(line: string): string {
	return line.replace(/\\(?:\\|(u[0-9a-f]{4}|[bfr]))/gi, (match, control) =>
		control === undefined ? match : `\\${match}`,
	);
}

/** An error for the log: what failed and where in the code, without values of a request or a row. */
function serialiseError(error: unknown): Record<string, unknown> {
	if (!(error instanceof Error)) return { type: typeof error };
	const fields = error as unknown as Record<string, unknown>;
	const serialised: Record<string, unknown> = { type: error.name };
	for (const name of safeFields) if (fields[name] !== undefined) serialised[name] = fields[name];
	// A data exception (SQLSTATE class 22) quotes the value in its message.
	const quotesValue = typeof fields.code === 'string' && /^22/.test(fields.code);
	if (!quotesValue) serialised.message = error.message;
	serialised.stack = error.stack
		?.replace(error.message, '')
		.split('\n')
		.filter((line) => line.startsWith('    at '))
		.join('\n');
	if (error.cause !== undefined) serialised.cause = serialiseError(error.cause);
	return serialised;
}
