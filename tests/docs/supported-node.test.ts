import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { satisfies } from 'semver';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { read, root } from './pages.js';

/** The oldest supported version of Node.js. */
const oldest = (JSON.parse(read('package.json')) as { engines: { node: string } }).engines.node.replace(/^>=/, '');

test('every package of the lock file supports the oldest supported Node.js, so an installation prints no warning', () => {
	const { packages } = parse(read('pnpm-lock.yaml')) as { packages: Record<string, { engines?: { node?: string } }> };
	const tooNew = Object.entries(packages)
		.filter(([, { engines }]) => engines?.node !== undefined && !satisfies(oldest, engines.node))
		.map(([name]) => name);
	expect(Object.keys(packages).length).toBeGreaterThan(100);
	expect(tooNew).toEqual([]);
});

/** The compiler's errors for these lines, with the settings of every package. */
function errorsOf(lines: string[]): string[] {
	const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc');
	// Inside the repository, so that the compiler finds the types of Node.js.
	const folder = mkdtempSync(join(root, 'node_modules', 'lib-'));
	try {
		writeFileSync(join(folder, 'lines.ts'), `${lines.join('\n')}\nexport {};\n`);
		writeFileSync(
			join(folder, 'tsconfig.json'),
			JSON.stringify({ extends: '../../tsconfig.base.json', files: ['lines.ts'] }),
		);
		execFileSync(process.execPath, [compiler, '--noEmit', '--project', folder], { encoding: 'utf8', stdio: 'pipe' });
		return [];
	} catch (error) {
		return (error as { stdout: string }).stdout.match(/lines\.ts\(\d+/g) ?? [];
	} finally {
		rmSync(folder, { recursive: true });
	}
}

test('the compiler accepts what Node.js 20 has, and rejects what came later', () => {
	expect(errorsOf(["''.isWellFormed();", "''.toWellFormed();", '[1].toSorted();', '[1].findLast(Boolean);'])).toEqual(
		[],
	);
	const later = [
		'Object.groupBy([1], String);',
		'Map.groupBy([1], String);',
		'Promise.withResolvers();',
		'new ArrayBuffer(8).transfer();',
	];
	expect(errorsOf(later)).toEqual(later.map((_, index) => `lines.ts(${index + 1}`));
});
