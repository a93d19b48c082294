import { version } from '@contacts/common/process/version.js';
import { satisfies } from 'semver';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { files, pages, read } from './pages.js';

const root = JSON.parse(read('package.json')) as { packageManager: string; engines: { node: string } };

interface Step {
	uses?: string;
	with?: Record<string, unknown>;
}
interface Workflow {
	jobs?: Record<string, { steps: Step[] }>;
	runs?: { steps: Step[] };
}

const workflows = files
	.filter((path) => /^\.github\/(workflows|actions)\/.*\.yml$/.test(path))
	.map((path) => ({ path, text: read(path) }));
const stepsOf = ({ jobs = {}, runs }: Workflow) => [
	...Object.values(jobs).flatMap(({ steps }) => steps),
	...(runs?.steps ?? []),
];

test('packages, images, OpenAPI documents and running services have the same version', () => {
	const manifests = files.filter((path) =>
		/^(package|tests\/package|(packages|services|workers|tools)\/[^/]+\/package)\.json$/.test(path),
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

test('the images use the version of pnpm that package.json names, pages name no other, and workflows read it there', () => {
	expect(read('Dockerfile')).toContain(` ${root.packageManager}\n`);
	const inPages = pages.flatMap(({ text }) => text.match(/pnpm@\d+\.\d+\.\d+/g) ?? []);
	expect(inPages.filter((name) => name !== root.packageManager)).toEqual([]);
	for (const { path, text } of workflows) expect(text.match(/pnpm@\d+\./g), path).toBeNull();
});

test('the Dockerfile names one base image without a variable, which Dependabot could not read', () => {
	const stages = [...read('Dockerfile').matchAll(/^FROM (?:--platform=\S+ )?(\S+) AS (\S+)$/gm)];
	const names = stages.map(([, , name]) => name);
	const images = stages.flatMap(([, image = '']) => (names.includes(image) ? [] : [image]));
	expect(images).toEqual([images[0], images[0]]);
	expect(images[0]).toMatch(/^node:\d+\.\d+\.\d+-\w+-slim$/);
	expect(read('Dockerfile').match(/^FROM /gm)).toHaveLength(stages.length);
});

test('.ci/run and hosted workflows use the Node.js of the images, and it gets security fixes for another month', () => {
	const [, images = ''] = /^FROM .*node:([\d.]+)-/m.exec(read('Dockerfile')) ?? [];
	expect(read('.node-version')).toBe(`${images}\n`);
	const { optionalDependencies } = JSON.parse(read('.ci/node/package.json')) as Record<string, Record<string, string>>;
	expect([...new Set(Object.values(optionalDependencies ?? {}))]).toEqual([images]);
	// https://github.com/nodejs/release#release-schedule
	const ends: Record<string, string> = { 22: '2027-04-30', 24: '2028-04-30', 26: '2029-04-30' };
	const end = ends[images.split('.')[0] as string];
	expect(Date.parse(String(end)) - Date.now()).toBeGreaterThan(30 * 86_400_000);
});

test('every checkout of a workflow forgets its credentials, and every action of others is pinned to a commit', () => {
	const steps = workflows.flatMap(({ text }) => stepsOf(parse(text) as Workflow));
	const used = steps.flatMap(({ uses }) => uses ?? []);
	expect(used.filter((name) => !/^\.\/|@[0-9a-f]{40}$/.test(name))).toEqual([]);
	const checkouts = steps.filter(({ uses }) => uses?.startsWith('actions/checkout@'));
	expect(checkouts.length).toBeGreaterThan(8);
	expect(checkouts.filter((step) => step.with?.['persist-credentials'] !== false)).toEqual([]);
});

test('every package of the lock file supports the oldest supported Node.js, so an installation prints no warning', () => {
	const { packages } = parse(read('pnpm-lock.yaml')) as { packages: Record<string, { engines?: { node?: string } }> };
	const tooNew = Object.entries(packages)
		.filter(([, { engines }]) => !satisfies(root.engines.node.replace(/^>=/, ''), engines?.node ?? '*'))
		.map(([name]) => name);
	expect(tooNew).toEqual([]);
});
