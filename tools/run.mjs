// Builds what changed, then runs a tool in this same process: `node tools/run.mjs cli project list`.
// One process without a shell, so that a signal reaches the tool itself.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const tool = process.argv[2];
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const compiler = createRequire(import.meta.url).resolve('typescript/package.json');
const build = spawnSync(process.execPath, [join(dirname(compiler), 'bin', 'tsc'), '-b', join('tools', tool)], {
	cwd: root,
	stdio: ['ignore', 'inherit', 'inherit'],
});
if (build.status !== 0) process.exit(1);

process.argv.splice(1, 2, join(root, 'tools', tool, 'dist', 'main.js'));
await import(`./${tool}/dist/main.js`);
