import { posix } from 'node:path';
import { catalogue } from '@contacts/common/http/problems.js';
import { createProgram } from '@contacts/operator/program.js';
import { describe, expect, test } from 'vitest';
import { files, type Page, pageAt, pages, read } from './pages.js';

const isSource = /\.(ts|mjs|js|sql|yml|template|yaml|sh)$|^(Dockerfile|\.ci\/run|\.env\.example|package\.json)$/;
const isGenerated = /(^|\/)(dist|generated|coverage)\/|^pnpm-lock\.yaml$|^tests\/docs\/docs\.test\.ts$/;
const sources = files.filter((path) => isSource.test(path) && !isGenerated.test(path)).map(read);
/** Every name that is written anywhere in the code. */
const names = new Set(sources.flatMap((text) => text.match(/\w+/g) ?? []));

/** Names that are not ours: other programs, their settings and functions, and placeholders for values. */
const foreign = new Set([
	...['CHAT_ID', 'contacts_restored', 'contacts_as'],
	...['pg_dump', 'pg_restore', 'pg_total_relation_size', 'max_standby_streaming_delay', 'ignore_startup_parameters'],
	...['set_real_ip_from', 'real_ip_header', 'channel_binding'],
	...['COMPOSE_FILE', 'COMPOSE_PROFILES', 'cfs_period_us', 'cfs_quota_us'],
]);

const folders = new Set(
	files.flatMap((path) => path.split('/').map((_, depth, all) => all.slice(0, depth + 1).join('/'))),
);

/** Whether such a file or folder exists. A star matches anything within a name. */
function exists(path: string): boolean {
	const target = path.replace(/\/$/, '');
	if (!target.includes('*')) return folders.has(target);
	const pattern = new RegExp(
		`^${target
			.replace(/[.+?^${}()|[\]\\]/g, '\\$&')
			.replaceAll('**/', '(.*/)?')
			.replace(/(?<!\.)\*/g, '[^/]*')}$`,
	);
	return [...folders].some((each) => pattern.test(each));
}

/** Shell commands, in a block of a page or in a sentence. */
const shellOf = ({ blocks, spans }: Page) => [
	...blocks.filter(({ language }) => ['sh', 'bash'].includes(language)).flatMap(({ text }) => text.split('\n')),
	...spans.filter((span) => /^(\w+=\S* )*(contacts|npx|docker compose) /.test(span)),
];

const program = createProgram({});
type Command = typeof program;

/** @returns what is wrong with a documented call of the operator's command */
function wrongCall(call: string): string | undefined {
	let command: Command = program;
	const words = call.replace(/[[\]]/g, ' ').trim().split(/\s+/);
	for (const word of words) {
		const below = command.commands.find((each) => each.name() === word);
		if (below !== undefined) command = below;
		else if (word.startsWith('--') && word !== '--help') {
			const known = command.options.some(({ long }) => long === word);
			if (!known) return `"${command.name()}" has no ${word}`;
		} else if (command.commands.length > 0 && /^[a-z]/.test(word)) return `"${command.name()}" has no "${word}"`;
	}
	return undefined;
}

/** Calls of the operator's command in a shell line. */
const callsIn = (line: string) =>
	line
		.replace(/#.*$/, '')
		.split(/\||&&|;|[<>](?!\()|\)/)
		.flatMap((part) => /(?:^|[\s(])contacts ((?!from\b)[a-z<-].*)$/.exec(part.trim())?.[1] ?? []);

test('the tests find the pages of the documentation', () => {
	expect(pages.map(({ path }) => path)).toEqual(
		expect.arrayContaining([
			...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'packages/client/README.md'],
			...['api', 'cli', 'configuration', 'mirror', 'operators', 'partners'].map((name) => `docs/${name}.md`),
			...['data-protection', 'developers', 'scale', 'who-may-what'].map((name) => `docs/${name}.md`),
		]),
	);
});

describe.each(pages.map((page) => [page.path, page] as const))('%s', (path, page) => {
	test('has no broken link', () => {
		const own = page.links.filter((link) => !/^(https?|mailto):/.test(link));
		const broken = own.filter((link) => {
			const [target = '', anchor] = link.split('#');
			const file = target === '' ? path : posix.join(posix.dirname(path), target);
			return !exists(file) || (anchor !== undefined && !pageAt(file).anchors.includes(anchor));
		});
		expect(broken).toEqual([]);
	});

	test('names only files and folders that exist', () => {
		const roots = new Set(files.map((file) => file.split('/')[0]));
		const here = posix.dirname(path);
		const wrong = page.spans.filter((span) => {
			if (/^[\w*][\w*.-]*\.ts$/.test(span)) return !exists(`**/${span}`);
			const looksLikePath = /^[\w@.*-]+(\/[\w@.*-]+)+\/?$/.test(span);
			if (!looksLikePath || !(roots.has(span.split('/')[0]) || span.startsWith('src/'))) return false;
			return !exists(span) && !exists(posix.join(here, span));
		});
		expect(wrong).toEqual([]);
	});

	test('names only variables, columns, metrics, roles and codes that the code has', () => {
		const shown = page.blocks.filter(({ language }) => !['sql', 'python', 'php', 'go'].includes(language));
		const written = [...page.spans, ...shown.map(({ text }) => text)].join('\n');
		const mentioned = written.match(/\b([A-Z][A-Z0-9]*(_[A-Z0-9]+)+|[a-z][a-z0-9]*(_[a-z0-9]+)+)\b/g) ?? [];
		expect([...new Set(mentioned)].filter((name) => !names.has(name) && !foreign.has(name))).toEqual([]);
	});

	test('calls only commands and options that the operator’s command has', () => {
		const mentioned = page.spans.filter((span) => program.commands.some((each) => span.startsWith(`${each.name()} `)));
		const wrong = [...shellOf(page).flatMap(callsIn), ...mentioned].flatMap((call) => wrongCall(call) ?? []);
		expect(wrong).toEqual([]);
	});

	test('calls only scripts that exist', () => {
		const scripts = Object.keys((JSON.parse(read('package.json')) as { scripts: object }).scripts);
		const called = [...page.text.matchAll(/pnpm@12 (?:--\S+ \S+ )?([a-z:]+)/g)].map(([, script]) => script);
		expect(called.filter((script) => ![...scripts, 'install', 'exec', 'pack'].includes(String(script)))).toEqual([]);
	});

	test('names only options that a program accepts', () => {
		const options = page.spans.flatMap((span) => /^--[a-z][a-z-]+/.exec(span)?.[0] ?? []);
		const ofCommands = new Set(flagsBelow(program));
		expect(options.filter((flag) => !ofCommands.has(flag) && !sources.some((text) => text.includes(flag)))).toEqual([]);
	});

	test('has only valid JSON in its JSON blocks', () => {
		for (const { language, text } of page.blocks) if (language === 'json') expect(() => JSON.parse(text)).not.toThrow();
	});
});

function flagsBelow(command: Command): string[] {
	return [...command.options.flatMap(({ long }) => long ?? []), ...command.commands.flatMap(flagsBelow)];
}

test('the tests detect wrong names and calls', () => {
	expect(
		callsIn('npx -y pnpm@12 contacts key nonsense 5 --overlap 7d').flatMap((call) => wrongCall(call) ?? []),
	).toEqual(['"key" has no "nonsense"']);
	expect(callsIn('contacts key rotate 5 --nonsense').map(wrongCall)).toEqual(['"rotate" has no --nonsense']);
	expect(callsIn('contacts backup - | gpg --encrypt').map(wrongCall)).toEqual([undefined]);
	expect([
		exists('services/*/src/*.sql.ts'),
		exists('services/*/src/nonsense.ts'),
		exists('services/nonsense'),
	]).toEqual([true, false, false]);
	expect(exists('**/authenticate.ts')).toBe(true);
	expect(exists('**/nonsense.ts')).toBe(false);
});

test('docs/api.md lists every error code, and no other', () => {
	const table = pageAt('docs/api.md').text.split('## Errors')[1]?.split('\n## ')[0] ?? '';
	const codes = [...table.matchAll(/^\| [\d, ]+ \| `(\w+)` \|/gm)].map(([, code]) => String(code));
	expect([...new Set(codes)].sort()).toEqual(Object.keys(catalogue).sort());
});

describe('SECURITY.md', () => {
	const { text } = pageAt('SECURITY.md');
	const rows = text.split('\n').filter((line) => /^\| API\d+ /.test(line));

	test('has all ten risks, each with a test', () => {
		expect(rows.map((row) => /^\| (API\d+) /.exec(row)?.[1])).toEqual(
			Array.from({ length: 10 }, (_, n) => `API${n + 1}`),
		);
	});

	test.each(rows.map((row) => [/API\d+/.exec(row)?.[0], row]))('%s names only tests that exist', (_, row = '') => {
		const cited = [...row.matchAll(/`([^`]+\.ts)`:((?: "[^"]+",?)+)/g)];
		expect(cited.length).toBeGreaterThan(0);
		for (const [, file = '', titles = ''] of cited) {
			const source = read(file);
			for (const [, title] of titles.matchAll(/"([^"]+)"/g)) {
				expect(
					["'", '"', '`'].some((quote) => source.includes(`(${quote}${title}${quote},`)),
					`${file}: ${title}`,
				).toBe(true);
			}
		}
	});
});
