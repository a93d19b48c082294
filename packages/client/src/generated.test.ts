import { readFile } from 'node:fs/promises';
import openapiTypes, { astToString } from 'openapi-typescript';
import { expect, test } from 'vitest';

test.each(['company-contacts', 'personal-contacts'])(
	'the types of %s match its OpenAPI document (vitest -u regenerates them)',
	async (name) => {
		const document = new URL(`../../../docs/openapi/${name}.json`, import.meta.url);
		const types = astToString(await openapiTypes(await readFile(document)));
		const note = `// Made by openapi-typescript of docs/openapi/${name}.json.\n\n`;
		await expect(note + types).toMatchFileSnapshot(new URL(`generated/${name}.ts`, import.meta.url).pathname);
	},
);
