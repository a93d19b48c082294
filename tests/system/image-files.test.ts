import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { environmentOf, startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, test } from 'vitest';

// The images hold the output of `pnpm deploy`, called as in the Dockerfile.

const root = fileURLToPath(new URL('../..', import.meta.url));
const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8');
const [, names = '', flags = ''] =
	/for service in ([\w -]+); do.*?deploy ([\w -]+?) "\/out\/\$service"/s.exec(dockerfile) ?? [];

/** The files that our packages put into an image, and the names of all packages installed in it. */
function contentsOf(image: string): { files: string[]; packages: string[] } {
	const store = join(image, 'node_modules', '.pnpm');
	const packages = readdirSync(store);
	const folders = [image];
	for (const name of packages.filter((each) => each.startsWith('@contacts+'))) {
		const [scope = ''] = readdirSync(join(store, name, 'node_modules')).filter((each) => each === '@contacts');
		const own = /^@contacts\+([\w-]+)@/.exec(name)?.[1] ?? '';
		folders.push(join(store, name, 'node_modules', scope, own));
	}
	const below = (folder: string): string[] =>
		readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
			if (entry.name === 'node_modules') return [];
			const path = join(folder, entry.name);
			return entry.isDirectory() ? below(path) : [relative(image, path)];
		});
	return { files: folders.flatMap(below), packages };
}

test.each(names.split(' '))('the image %s holds the product without its tests', async (service) => {
	const image = join(await temporaryFolder(), service);
	const deploy = [
		'-y',
		'pnpm@12',
		'--filter',
		`@contacts/${service}`,
		'deploy',
		...flags.split(' '),
		'--offline',
		image,
	];
	const pnpm = startProcess('npx', deploy, { cwd: root });
	expect(await pnpm.exit, pnpm.output()).toBe(0);
	const { files, packages } = contentsOf(image);
	expect(files).toContain('dist/main.js');
	expect(files.filter((file) => /@contacts\/common\/dist\/.*\.js$/.test(file)).length).toBeGreaterThan(20);
	if (service !== 'cli') {
		for (const name of [
			'dist/api-reference/scalar.js.br',
			'dist/api-reference/scalar.js.gz',
			'api-reference/scalar.LICENSE',
		])
			expect(files.filter((file) => file.endsWith(`@contacts/common/${name}`))).toHaveLength(1);
	}
	expect(packages.filter((name) => name.startsWith('@scalar'))).toEqual([]);
	expect(files.filter((file) => /\.test\.|(^|\/)(testing|tests|stand-in)\//.test(file))).toEqual([]);
	expect(
		packages.filter((name) => /testing|stand-in|^(vitest|execa|fast-check|playwright-core|autocannon)@/.test(name)),
	).toEqual([]);
	for (const program of files.filter((file) => /^dist\/(\w+\/)?main\.js$/.test(file))) {
		const run = startProcess(process.execPath, [join(image, program), '--version'], { env: environmentOf() });
		await run.exit;
		// A service misses its settings and the command prints its version only if all files that they import are there.
		expect(run.output()).toMatch(/^(DATABASE_URL is not set|\d+\.\d+\.\d+$)/m);
	}
});

test('the tests inspect every image of the Dockerfile', () => {
	const targets = [...dockerfile.matchAll(/^COPY --from=build \/out\/(\S+) /gm)].map(([, name]) => name);
	expect(targets.toSorted()).toEqual(names.split(' ').toSorted());
});
