// Compiles what changed, and adapts and compresses the script of the API reference when there is another version of it:
// `node tools/build.mjs` for everything, `node tools/build.mjs services/company-contacts` for a project and what it imports.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const readJson = (file) => JSON.parse(readFileSync(join(root, file), 'utf8'));
// tsc asks for the contents of a file only if it is newer than what was compiled from it. Files that were restored have old times, and a
// clock may have been ahead. So what was compiled becomes the oldest.
for (const { path } of readJson('tsconfig.json').references) {
	const config = path.endsWith('.json') ? path : join(path, 'tsconfig.json');
	const compiled = join(root, dirname(config), readJson(config).compilerOptions.tsBuildInfoFile);
	if (existsSync(compiled)) utimesSync(compiled, 0, 0);
}
const compiler = createRequire(import.meta.url).resolve('typescript/package.json');
const { status } = spawnSync(
	process.execPath,
	[join(dirname(compiler), 'bin', 'tsc'), '-b', ...process.argv.slice(2)],
	{ cwd: root, stdio: ['ignore', 'inherit', 'inherit'] },
);
if (status !== 0) process.exit(1);

// A user's own settings of pnpm may put all packages into one folder.
const folders = [join(root, 'packages', 'common', 'node_modules'), join(root, 'node_modules')];
const scalar = folders.map((folder) => join(folder, '@scalar', 'api-reference')).find(existsSync);
const target = join(root, 'packages', 'common', 'dist', 'api-reference');
const { version } = JSON.parse(readFileSync(join(scalar, 'package.json'), 'utf8'));
const marker = join(target, 'scalar.version');
/**
 * Texts of Scalar that no option changes, each with what replaces it and the number of its places. Its own placeholder of a
 * credential looks like a key, it would mask the project, and it would warn of an optional parameter that is left empty.
 */
const replacements = [
	[
		'modelValue:t[`x-scalar-secret-token`],placeholder:`QUxMIFlPVVIgQkFTRSBBUkUgQkVMT05HIFRPIFVT`,type:`password`',
		'modelValue:t[`x-scalar-secret-token`],placeholder:t.name===`project`?`your project`:`your key`,type:t.name===`project`?`text`:`password`',
		1,
	],
	[
		'if(n.type===`apiKey`){let e=n[`x-scalar-secret-token`]||`YOUR_SECRET_TOKEN`',
		'if(n.type===`apiKey`){let e=n[`x-scalar-secret-token`]||(n.name===`project`?`YOUR_PROJECT`:`YOUR_KEY`)',
		1,
	],
	[
		'if(!e||!(`type`in e)||typeof t!=`string`)return{ok:!0}',
		'if(!e||!(`type`in e)||typeof t!=`string`||t===``)return{ok:!0}',
		1,
	],
];
const state = JSON.stringify([version, replacements]);
if (!existsSync(marker) || readFileSync(marker, 'utf8') !== state) {
	let text = readFileSync(join(scalar, 'dist', 'browser', 'standalone.js'), 'utf8');
	for (const [old, replacement, expected] of replacements) {
		const places = text.split(old).length - 1;
		if (places !== expected) throw new Error(`Scalar ${version} has ${places} places of ${old}, not ${expected}.`);
		text = text.replaceAll(old, () => replacement);
	}
	const script = Buffer.from(text);
	// Quality 11 saves another tenth, and takes ten times as long.
	const params = {
		[constants.BROTLI_PARAM_QUALITY]: 9,
		[constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
		[constants.BROTLI_PARAM_SIZE_HINT]: script.length,
	};
	mkdirSync(target, { recursive: true });
	writeFileSync(join(target, 'scalar.js.br'), brotliCompressSync(script, { params }));
	writeFileSync(join(target, 'scalar.js.gz'), gzipSync(script, { level: 9 }));
	writeFileSync(marker, state);
}
