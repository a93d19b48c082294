// Makes a release: `npx -y pnpm@12 release 0.2.0` sets this version in every package, the images and the OpenAPI documents, dates
// what the changelog has under "Unreleased", commits and tags. It publishes nothing: push the commit and the tag once they are right.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).trim();
const parts = (version) => version.split('.').map(Number);

/** Whether the first version comes before the second one. */
function isBefore(one, other) {
	const [a, b] = [parts(one), parts(other)];
	const index = a.findIndex((part, at) => part !== b[at]);
	return index !== -1 && a[index] < b[index];
}

function fail(message) {
	process.stderr.write(`${message}\n`);
	process.exit(1);
}

process.chdir(git('rev-parse', '--show-toplevel'));
const [version = ''] = process.argv.slice(2);
const current = JSON.parse(readFileSync('package.json', 'utf8')).version;
if (!/^\d+\.\d+\.\d+$/.test(version)) fail(`Name the version, such as ${current}: npx -y pnpm@12 release VERSION`);
if (isBefore(version, current)) fail(`${version} comes before ${current}.`);
if (git('tag', '--list', `v${version}`) !== '') fail(`There is a tag v${version} already.`);
if (git('status', '--porcelain') !== '') fail('There are changes that are not committed.');

const changelog = readFileSync('CHANGELOG.md', 'utf8');
const dated = `## [${version}] - ${new Date().toISOString().slice(0, 10)}`;
const [, pending = ''] = /^## Unreleased\n([\s\S]*?)(?=^## |$(?![\s\S]))/m.exec(changelog) ?? [];
// The release may already be prepared, with its date.
if (!changelog.includes(`## [${version}] - `)) {
	if (pending.trim() === '') fail('CHANGELOG.md has nothing under "## Unreleased".');
	writeFileSync('CHANGELOG.md', changelog.replace('## Unreleased\n', `## Unreleased\n\n${dated}\n`));
}

/** The first match in each of these files is its version; in the compose file it is each match. */
const places = [
	{ files: git('ls-files', '*package.json'), pattern: /(?<="version": ")[^"]+/ },
	{ files: git('ls-files', 'docs/openapi/*.json'), pattern: /(?<="version": ")[^"]+/ },
	{ files: 'Dockerfile', pattern: /(?<=image\.version=)\S+/ },
	{ files: 'docker-compose.yml', pattern: /(?<=\$\{CONTACTS_VERSION:-)[^}]+/g },
	{ files: '.env.example', pattern: /(?<=CONTACTS_VERSION=)\S+/ },
];
for (const { files, pattern } of places)
	for (const file of files.split('\n')) writeFileSync(file, readFileSync(file, 'utf8').replace(pattern, version));

if (git('status', '--porcelain') !== '') git('commit', '--quiet', '--all', '--message', `Release ${version}`);
git('tag', '--annotate', `v${version}`, '--message', `contacts ${version}`);
process.stdout.write(`Made v${version}. To publish it: git push --follow-tags\n`);
