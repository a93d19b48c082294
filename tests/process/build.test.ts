import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, test } from 'vitest';
import { root } from '../docs/pages.js';

test.each([
	['it has an old time', '2020-01-01', new Date().toISOString()],
	['the clock was ahead when it was compiled', '2026-01-01', '2999-01-01'],
])('a changed source is compiled when %s', async (_, sourceTime, compiledTime) => {
	// One project with this repository's script, compiler and settings.
	const folder = await temporaryFolder();
	for (const path of ['tools/build.mjs', 'tsconfig.base.json', 'packages/common/dist/api-reference'])
		cpSync(join(root, path), join(folder, path), { recursive: true });
	for (const path of ['node_modules', 'packages/common/node_modules'])
		symlinkSync(join(root, path), join(folder, path));
	const write = (path: string, text: string) => writeFileSync(join(folder, path), text);
	mkdirSync(join(folder, 'tools/some/src'), { recursive: true });
	write('package.json', '{ "type": "module" }');
	write('tsconfig.json', '{ "files": [], "references": [{ "path": "tools/some" }] }');
	const options = { rootDir: 'src', outDir: 'dist', tsBuildInfoFile: 'dist/.tsbuildinfo' };
	write(
		'tools/some/tsconfig.json',
		JSON.stringify({ extends: '../../tsconfig.base.json', compilerOptions: options, include: ['src'] }),
	);
	const compiled = join(folder, 'tools/some/dist');
	const program = () => readFileSync(join(compiled, 'main.js'), 'utf8').split('\n')[0];
	const setTime = (path: string, time: string) => utimesSync(path, new Date(time), new Date(time));

	const sources = [
		'tools/some/src/main.ts',
		'tools/some/tsconfig.json',
		'tsconfig.json',
		'tsconfig.base.json',
		'package.json',
	];

	for (const word of ['first', 'second']) {
		write('tools/some/src/main.ts', `export const word = '${word}';\n`);
		for (const path of sources) setTime(join(folder, path), sourceTime);
		const { status, stderr } = spawnSync(process.execPath, [join(folder, 'tools/build.mjs')], { encoding: 'utf8' });
		expect([status, stderr, program()]).toEqual([0, '', `export const word = '${word}';`]);
		for (const name of ['.tsbuildinfo', 'main.js', 'main.d.ts']) setTime(join(compiled, name), compiledTime);
	}
});
