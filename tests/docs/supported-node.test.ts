import { satisfies } from 'semver';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { read } from './pages.js';

test('every package of the lock file supports the oldest supported Node.js, so an installation prints no warning', () => {
	const oldest = (JSON.parse(read('package.json')) as { engines: { node: string } }).engines.node.replace(/^>=/, '');
	const { packages } = parse(read('pnpm-lock.yaml')) as { packages: Record<string, { engines?: { node?: string } }> };
	const tooNew = Object.entries(packages)
		.filter(([, { engines }]) => engines?.node !== undefined && !satisfies(oldest, engines.node))
		.map(([name]) => name);
	expect(Object.keys(packages).length).toBeGreaterThan(100);
	expect(tooNew).toEqual([]);
});
