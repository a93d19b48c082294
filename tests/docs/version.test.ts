import { version } from '@contacts/common/process/version.js';
import { expect, test } from 'vitest';
import { files, read } from './pages.js';

test('packages, images, OpenAPI documents and running services have the same version', () => {
	const manifests = files.filter((path) =>
		/^(package|(packages|services|workers|tools)\/[^/]+\/package)\.json$/.test(path),
	);
	expect(manifests.length).toBeGreaterThanOrEqual(10);
	const versions = [...manifests.map((path) => JSON.parse(read(path)) as { version: string })].map(
		(each) => each.version,
	);
	const documents = files.filter((path) => path.startsWith('docs/openapi/'));
	for (const path of documents) versions.push((JSON.parse(read(path)) as { info: { version: string } }).info.version);
	versions.push(String(/image\.version=(\S+)/.exec(read('Dockerfile'))?.[1]));
	expect(new Set(versions)).toEqual(new Set([version]));
});

test('images, workflows and the guide to units use the version of pnpm that package.json names', () => {
	const { packageManager } = JSON.parse(read('package.json')) as { packageManager: string };
	expect(read('Dockerfile')).toContain(` ${packageManager}\n`);
	for (const workflow of ['ci', 'nightly', 'release'])
		expect(read(`.github/workflows/${workflow}.yml`)).toContain(`\n  PNPM: ${packageManager}\n`);
	const [, guide = ''] = read('docs/operators.md').split('### As units of systemd');
	const [section = ''] = guide.split(/^## /m);
	expect(new Set(section.match(/pnpm@[\d.]+\d/g))).toEqual(new Set([packageManager]));
});
