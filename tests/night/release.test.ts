import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

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
	execFileSync('git', ['clone', '--quiet', '--no-hardlinks', '--no-tags', root, folder]);
	const changelog = join(folder, 'CHANGELOG.md');
	writeFileSync(changelog, '# Changelog\n\n## Unreleased\n\n- Something.\n\n## [0.0.9] - 2026-01-01\n');
	git('commit', '--quiet', '--all', '--message', 'Begin');

	expect(release('99.2.0')).toMatchObject({ status: 0, stderr: '' });
	const versions = git(
		'grep',
		'--only-matching',
		'--extended-regexp',
		'("version": "|image.version=|CONTACTS_VERSION(:-|=))[0-9.]+',
		'--',
		...['*package.json', 'docs/openapi', 'Dockerfile', 'docker-compose.yml', '.env.example'],
	);
	expect(versions.split('\n').length).toBeGreaterThan(12);
	expect(versions.split('\n').filter((line) => !line.endsWith('99.2.0'))).toEqual([]);
	expect(readFileSync(changelog, 'utf8')).toMatch(
		/^# Changelog\n\n## Unreleased\n\n## \[99\.2\.0\] - \d{4}-\d\d-\d\d\n\n- Something\.\n\n## \[0\.0\.9\]/,
	);
	expect(git('describe')).toBe('v99.2.0');
	expect(git('status', '--porcelain')).toBe('');

	git('tag', '--delete', 'v99.2.0');
	const prepared = git('rev-parse', 'HEAD');
	expect(release('99.2.0')).toMatchObject({ status: 0, stderr: '' });
	expect([git('describe'), git('rev-parse', 'HEAD')]).toEqual(['v99.2.0', prepared]);

	// A tag that exists, a version that comes before it, nothing to release, no version, and what is not committed.
	for (const version of ['99.2.0', '99.1.9', '99.10.0', 'next']) expect(release(version).status, version).toBe(1);
	writeFileSync(changelog, '## Unreleased\n\n- More.\n');
	expect(release('99.10.0').status).toBe(1);
	expect([git('describe'), git('rev-parse', 'HEAD')]).toEqual(['v99.2.0', prepared]);
});
