import { parseArgs } from 'node:util';

export const usage = `Usage: npx -y pnpm@12 soak [--minutes N] [--rate N] [--file PATH]

Runs PostgreSQL and both services under a steady mixed load, and draws their memory, handles and connections.

  --minutes N   how long; fractions are allowed (default 60)
  --rate N      requests a second, from 10 to 2000 (default 200)
  --file PATH   the SVG file that is written (default soak.svg)

Exit codes: 0 all answers were as expected, 1 an unexpected answer or a crash, 2 wrong usage.
`;

export interface Settings {
	minutes: number;
	/** Requests a second. */
	rate: number;
	file: string;
}

/** Wrong usage: the message is one line for the person who started it. */
export class UsageError extends Error {}

/** @returns undefined when the caller asked for the usage text */
export function readSettings(args: string[]): Settings | undefined {
	let values: { minutes: string; rate: string; file: string; help: boolean };
	try {
		({ values } = parseArgs({
			args,
			options: {
				minutes: { type: 'string', default: '60' },
				rate: { type: 'string', default: '200' },
				file: { type: 'string', default: 'soak.svg' },
				help: { type: 'boolean', short: 'h', default: false },
			},
		}));
	} catch (error) {
		throw new UsageError((error as Error).message);
	}
	if (values.help) return undefined;
	return {
		minutes: numberFrom(values.minutes, '--minutes', 0.01, 10_000),
		rate: numberFrom(values.rate, '--rate', 10, 2000),
		file: values.file,
	};
}

function numberFrom(text: string, option: string, min: number, max: number): number {
	const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
	if (value >= min && value <= max) return value;
	throw new UsageError(`${option} must be a number from ${min} to ${max}.`);
}
