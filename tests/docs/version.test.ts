import { version } from '@contacts/common/process/version.js';
import { satisfies } from 'semver';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { files, pages, read } from './pages.js';

const root = JSON.parse(read('package.json')) as { packageManager: string; engines: { node: string } };

test('packages, images, OpenAPI documents and running services have the same version', () => {
	const manifests = files.filter((path) =>
		/^(package|(packages|services|workers|tools)\/[^/]+\/package)\.json$/.test(path),
	);
	const documents = files.filter((path) => path.startsWith('docs/openapi/'));
	const versions = [
		...manifests.map((path) => (JSON.parse(read(path)) as { version: string }).version),
		...documents.map((path) => (JSON.parse(read(path)) as { info: { version: string } }).info.version),
		/image\.version=(\S+)/.exec(read('Dockerfile'))?.[1],
	];
	expect(versions.length).toBeGreaterThan(10);
	expect(new Set(versions)).toEqual(new Set([version]));
});

test('images, workflows and pages use the version of pnpm that package.json names', () => {
	const workflows = ['ci', 'compose', 'nightly', 'release'].map((name) => read(`.github/workflows/${name}.yml`));
	for (const text of [read('Dockerfile'), ...workflows]) expect(text).toContain(` ${root.packageManager}\n`);
	const inPages = pages.flatMap(({ text }) => text.match(/pnpm@\d+\.\d+\.\d+/g) ?? []);
	expect(new Set(inPages)).toEqual(new Set([root.packageManager]));
});

test('every package of the lock file supports the oldest supported Node.js, so an installation prints no warning', () => {
	const { packages } = parse(read('pnpm-lock.yaml')) as { packages: Record<string, { engines?: { node?: string } }> };
	const tooNew = Object.entries(packages)
		.filter(([, { engines }]) => !satisfies(root.engines.node.replace(/^>=/, ''), engines?.node ?? '*'))
		.map(([name]) => name);
	expect(tooNew).toEqual([]);
});
