import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const isGeneric = (path: string) => !/node_modules|dist\/|\.git\/|\.local/.test(path);

test('npx pnpm release sets one version everywhere, dates the changelog, commits and tags, once for each version', async () => {
	const folder = await temporaryFolder();
	const git = (...args: string[]) =>
		execFileSync('git', ['-c', 'user.name=test', '-c', 'user.email=test@example.com', ...args], {
			cwd: folder,
			encoding: 'utf8',
		}).trim();
	const release = (version: string) =>
		spawnSync(process.execPath, ['tools/release.mjs', version], {
			cwd: folder,
			encoding: 'utf8',
			env: {
				...{ PATH: process.env.PATH, HOME: folder },
				...{ GIT_AUTHOR_NAME: 'test', GIT_AUTHOR_EMAIL: 'test@example.com' },
				...{ GIT_COMMITTER_NAME: 'test', GIT_COMMITTER_EMAIL: 'test@example.com' },
			},
		});
	const here = execFileSync('git', ['ls-files', '*package.json', 'docs/openapi'], { cwd: root, encoding: 'utf8' });
	for (const path of [
		...here.trim().split('\n').filter(isGeneric),
		'Dockerfile',
		'docker-compose.yml',
		'.env.example',
		'tools/release.mjs',
	])
		cpSync(join(root, path), join(folder, path));
	const read = (path: string) => readFileSync(join(folder, path), 'utf8');
	writeFileSync(
		join(folder, 'CHANGELOG.md'),
		'# Changelog\n\n## Unreleased\n\n- Something.\n\n## [0.0.9] - 2026-01-01\n',
	);
	git('init', '--quiet', '--initial-branch=main');
	git('add', '--all');
	git('commit', '--quiet', '--message', 'Begin');

	expect(release('99.2.0')).toMatchObject({ status: 0, stderr: '' });
	const versions = git(
		'grep',
		'--only-matching',
		'--extended-regexp',
		'("version": "|image.version=|CONTACTS_VERSION(:-|=))[0-9.]+',
		'--',
		'.',
	);
	expect(versions.split('\n').length).toBeGreaterThan(12);
	expect(versions.split('\n').filter((line) => !line.endsWith('99.2.0'))).toEqual([]);
	expect(read('CHANGELOG.md')).toMatch(
		/^# Changelog\n\n## Unreleased\n\n## \[99\.2\.0\] - \d{4}-\d\d-\d\d\n\n- Something\.\n\n## \[0\.0\.9\]/,
	);
	expect(git('describe')).toBe('v99.2.0');
	expect(git('status', '--porcelain')).toBe('');

	git('tag', '--delete', 'v99.2.0');
	const prepared = git('rev-parse', 'HEAD');
	expect(release('99.2.0')).toMatchObject({ status: 0, stderr: '' });
	expect([git('describe'), git('rev-parse', 'HEAD')]).toEqual(['v99.2.0', prepared]);

	expect(release('99.2.0').stderr).toBe('There is a tag v99.2.0 already.\n');
	expect(release('99.1.9').stderr).toBe('99.1.9 comes before 99.2.0.\n');
	expect(release('99.10.0').stderr).toBe('CHANGELOG.md has nothing under "## Unreleased".\n');
	writeFileSync(join(folder, 'Dockerfile'), '');
	expect(release('99.10.0')).toMatchObject({ status: 1, stderr: 'There are changes that are not committed.\n' });
	expect(release('next').stderr).toContain('Name the version, such as 99.2.0');
});
