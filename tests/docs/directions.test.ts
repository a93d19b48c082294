import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path/posix';
import { expect, test } from 'vitest';

/** From the lowest floor up. A file imports from its own folder and from the floors below it. */
const floors = [
	['packages/common/src/observability'],
	['packages/common/src/database'],
	['packages/common/src/contacts'],
	['packages/common/src/auth'],
	['packages/common/src/schemas'],
	['packages/common/src/http'],
	['packages/common/src/process'],
	['packages/common/src/api-reference'],
	['packages/client', 'packages/local-postgres', 'packages/migrations'],
	['packages/testing'],
	['services/company-contacts', 'services/personal-contacts', 'workers/crm-sync'],
	['tools/bench', 'tools/cli', 'tools/local'],
];
const root = new URL('../../', import.meta.url);
/** The sources of each package, such as `packages/common/src`. */
const sources = ['packages', 'services', 'workers', 'tools'].flatMap((parent) =>
	readdirSync(new URL(parent, root), { withFileTypes: true }).flatMap((entry) =>
		entry.isDirectory() ? [`${parent}/${entry.name}/src`] : [],
	),
);
const imported = /(?:from|import)[ (]'(?:(?<near>\.[^']+)|@contacts\/(?<name>[\w-]+)\/(?<path>[^']+))'/g;

test('every file is on a floor, and imports from its own folder or from a floor below', () => {
	const floorOf = (path: string) => floors.findIndex((folders) => folders.some((each) => path.startsWith(`${each}/`)));
	const folderOf = (path: string) => floors[floorOf(path)]?.find((each) => path.startsWith(`${each}/`));
	const filesIn = (folder: string) =>
		readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`);
	// Tests may import what is above: the kit, and what they compare with.
	const files = sources
		.flatMap(filesIn)
		.filter((file) => /(?<!\.test)\.ts$/.test(file) && !/\/src\/(.*\/)?testing\//.test(file));
	const refused = files.flatMap((file) =>
		[...readFileSync(new URL(file, root), 'utf8').matchAll(imported)]
			.map(({ groups: { near, name, path } = {} }) =>
				near === undefined
					? `${sources.find((each) => each.endsWith(`/${name}/src`))}/${path}`
					: join(dirname(file), near),
			)
			.filter(
				(target) => folderOf(target) !== folderOf(file) && !(floorOf(target) >= 0 && floorOf(target) < floorOf(file)),
			)
			.map((target) => `${file} imports ${target}`),
	);
	expect([...refused, ...files.filter((file) => folderOf(file) === undefined)]).toEqual([]);
});
