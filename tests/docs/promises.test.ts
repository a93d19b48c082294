import { join } from 'node:path';
import { expect, test } from 'vitest';
import { disturbances } from '../faults/disturbances.js';
import type { Outcome } from '../faults/judges/judge.js';
import { read, root } from './pages.js';

const page = 'docs/promises.md';
const marker = '<!-- Generated from tests/faults/disturbances.ts: npx -y pnpm@12 reference updates it. -->\n';

const words: Partial<Record<Outcome, string>> = {
	timeout: 'no response for 6 s',
	broken: 'a broken connection',
	foreign: 'what the intermediary says',
};

test('docs/promises.md has every disturbance with what clients may be told', async () => {
	const groups = new Map<string, string[]>();
	for (const { name, allows } of disturbances) {
		const told = allows.outcomes.map((outcome) => words[outcome] ?? String(outcome)).join(', ') || 'nothing else';
		const allowed = `${told} | ${allows.forMs / 1000} s`;
		groups.set(allowed, [...(groups.get(allowed) ?? []), name]);
	}
	const rows = [...groups].map(([allowed, names]) => `| ${names.join('<br>')} | ${allowed} |\n`);
	const table = `\n| what happens | clients may be told | until so long after it |\n|---|---|---|\n${rows.join('')}`;
	const [prose = ''] = read(page).split(marker);
	await expect(prose + marker + table).toMatchFileSnapshot(join(root, page));
});
