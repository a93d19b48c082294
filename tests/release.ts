import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { environmentOf } from '@contacts/testing/process.js';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Writes the files of a release of the commit that is checked out into a folder, as .github/workflows/release.yml does. */
export function makeRelease(version: string, folder: string): void {
	const clone = mkdtempSync(join(tmpdir(), 'contacts-release-'));
	const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { packageManager: string };
	const pnpm = `npx -y ${packageManager}`;
	const author = { GIT_AUTHOR_NAME: 'test', GIT_AUTHOR_EMAIL: 'test@example.com' };
	const committer = { GIT_COMMITTER_NAME: 'test', GIT_COMMITTER_EMAIL: 'test@example.com' };
	const env = environmentOf({ ...author, ...committer, PNPM: pnpm });
	const run = (command: string) => execFileSync('sh', ['-euc', command], { cwd: clone, env, stdio: 'pipe' });
	try {
		execFileSync('git', ['-c', 'safe.directory=*', 'clone', '--quiet', '--no-tags', root, clone]);
		const changelog = join(clone, 'CHANGELOG.md');
		writeFileSync(changelog, '# Changelog\n\n## Unreleased\n\n- Something.\n');
		run('git commit --quiet --all --message Begin');
		run(`node tools/release.mjs ${version}`);
		run(`${pnpm} install --frozen-lockfile --prefer-offline`);
		run(`sh tools/release-files.sh registry.example.com/owner ${version} '${folder}'`);
	} finally {
		rmSync(clone, { recursive: true, force: true });
	}
}
