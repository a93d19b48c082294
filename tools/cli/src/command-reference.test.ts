import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { createProgram } from './program.js';
import { contacts } from './testing/command.js';

const page = new URL('../../../docs/cli.md', import.meta.url);
const marker = '<!-- Generated from the help of each command: npx -y pnpm@12 reference updates it. -->\n';

/** The words of every leaf command, such as `key create`. */
function pathsBelow(command: Command, path: string[] = []): string[][] {
	const below = command.commands.flatMap((child) => pathsBelow(child, [...path, child.name()]));
	return command.commands.length === 0 || path.join() === 'sync' ? [path, ...below] : below;
}

test('docs/cli.md has the help of every command', async () => {
	const sections = await Promise.all(
		pathsBelow(createProgram({})).map(async (path) => {
			const { stdout } = await contacts(undefined, [...path, '--help']);
			return `### ${path.join(' ')}\n\n\`\`\`text\n${stdout.trimEnd()}\n\`\`\`\n`;
		}),
	);
	const [prose = ''] = (await readFile(page, 'utf8')).split(marker);
	await expect(`${prose}${marker}\n${sections.join('\n')}`).toMatchFileSnapshot(page.pathname);
});
