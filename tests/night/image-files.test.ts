import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { environmentOf, startProcess } from '@contacts/testing/process.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { beforeAll, expect, test } from 'vitest';

// The images and the archive for machines without containers hold the output of tools/deploy.sh.

const root = fileURLToPath(new URL('../..', import.meta.url));
const programs = ['services/personal-contacts', 'services/company-contacts', 'workers/crm-sync', 'tools/cli'];
const folder = sharedFolder();

beforeAll(() => {
	const { status, stdout, stderr } = spawnSync('sh', ['tools/deploy.sh', folder], {
		cwd: root,
		env: { ...environmentOf(), PNPM: 'npx -y pnpm@12' },
		encoding: 'utf8',
	});
	expect(status, stdout + stderr).toBe(0);
}, 600_000);

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

/** Files of a folder with all packages that are installed in it. */
const allFilesBelow = (folder: string) => readdirSync(folder, { recursive: true, encoding: 'utf8' });

test.each(programs)('the folder of %s holds the product without tests, types and source maps', async (program) => {
	const image = join(folder, program);
	const { files, packages } = contentsOf(image);
	expect(files).toContain('dist/main.js');
	expect(files.filter((file) => /@contacts\/common\/dist\/.*\.js$/.test(file)).length).toBeGreaterThan(20);
	if (program !== 'tools/cli') {
		for (const name of [
			'dist/api-reference/scalar.js.br',
			'dist/api-reference/scalar.js.gz',
			'api-reference/scalar.LICENSE',
		])
			expect(files.filter((file) => file.endsWith(`@contacts/common/${name}`))).toHaveLength(1);
	}
	expect(packages.filter((name) => name.startsWith('@scalar'))).toEqual([]);
	// Only the command changes the schema.
	const ofSchema = packages.filter((name) => /^(postgrator|@contacts\+migrations)@/.test(name));
	expect(ofSchema).toHaveLength(program === 'tools/cli' ? 2 : 0);
	expect(files.filter((file) => /\.test\.|(^|\/)(testing|tests|stand-in)\//.test(file))).toEqual([]);
	expect(
		packages.filter((name) => /testing|stand-in|^(vitest|execa|fast-check|playwright-core|autocannon)@/.test(name)),
	).toEqual([]);
	expect(allFilesBelow(image).filter((file) => /\.(map|ts|tsbuildinfo)$|(^|\/)tests?\//.test(file))).toEqual([]);
	// It runs on every platform, and compiles nothing when it is installed.
	expect(allFilesBelow(image).filter((file) => /\.node$|(^|\/)binding\.gyp$/.test(file))).toEqual([]);
	for (const main of files.filter((file) => /^dist\/(\w+\/)?main\.js$/.test(file))) {
		const run = startProcess(process.execPath, [join(image, main), '--version'], { env: environmentOf() });
		await run.exit;
		// A service misses its settings and the command prints its version only if all files that they import are there.
		expect(run.output()).toMatch(/^(DATABASE_URL is not set|\d+\.\d+\.\d+$)/m);
	}
});

test('the tests inspect every folder, each is an image of the Dockerfile, and a release has each image', () => {
	const made = ['services', 'workers', 'tools'].flatMap((name) =>
		readdirSync(join(folder, name)).map((each) => `${name}/${each}`),
	);
	expect(made.toSorted()).toEqual(programs.toSorted());
	const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8');
	const copied = [...dockerfile.matchAll(/^COPY --from=build \/out\/(\S+) /gm)].map(([, name]) => name);
	expect(copied.toSorted()).toEqual(programs.toSorted());
	const images = programs.map((program) => basename(program)).join(' ');
	expect(readFileSync(join(root, 'tools/release-images.sh'), 'utf8')).toContain(`for image in ${images};`);
});
