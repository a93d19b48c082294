import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { createProgram } from './program.js';

/** All leaf commands, with their names. */
function leaves(command: Command, words: string[] = []): [string, Command][] {
	const below = command.commands.flatMap((sub) => leaves(sub, [...words, sub.name()]));
	return below.length > 0 && command.name() !== 'sync' ? below : [[words.join(' '), command], ...below];
}

const program = createProgram({});

describe.each(leaves(program))('the help of "%s"', (words, command) => {
	let help = '';
	command.configureOutput({
		writeOut(text) {
			help += text;
		},
	});
	command.outputHelp();
	const lines = help.split('\nExamples:\n')[1]?.trimEnd().split('\n') ?? [];
	const calls = lines.flatMap((line) =>
		line
			.split(/\||&&|[<>]\(?/)
			.map((part) => /(?:^|\s)contacts (.+)$/.exec(part.trim())?.[1])
			.filter((call) => call !== undefined),
	);

	test('fits 80 columns before them', () => {
		expect(
			help
				.split('\nExamples:\n')[0]
				?.split('\n')
				.filter((line) => line.length > 80),
		).toEqual([]);
	});

	test('has examples of this command', () => {
		expect(lines.length).toBeGreaterThan(0);
		expect(calls.some((call) => `${call} `.startsWith(`${words} `))).toBe(true);
	});

	test.each(calls)('its example "contacts %s" is valid as it stands', async (call) => {
		let done = false;
		const parser = createProgram({}).configureOutput({ writeErr: () => undefined });
		for (const [, leaf] of leaves(parser)) {
			leaf.action(() => {
				done = true;
			});
		}
		const words = [...call.replace(/\)$/, '').matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain);
		await parser.parseAsync(['node', 'contacts', ...words.map(String)]);
		expect(done).toBe(true);
	});
});
