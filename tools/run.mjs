// Builds what changed, then runs a tool in this same process: `node tools/run.mjs cli project list`.
// One process without a shell, so that a signal reaches the tool itself.
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const tool = process.argv[2];
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const build = spawnSync(process.execPath, [join(root, 'tools', 'build.mjs'), join('tools', tool)], {
	stdio: ['ignore', 'inherit', 'inherit'],
});
if (build.status !== 0) process.exit(1);

process.argv.splice(1, 2, join(root, 'tools', tool, 'dist', 'main.js'));
await import(`./${tool}/dist/main.js`);
