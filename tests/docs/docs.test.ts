import { readdirSync } from 'node:fs';
import { join, posix } from 'node:path';
import { createProgram } from '@contacts/cli/program.js';
import { describe, expect, test } from 'vitest';
import { files, type Page, pageAt, pages, read, root } from './pages.js';

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
	...spans.filter((span) => /^(\w+=\S* )*((\.\/)?contacts|npx|docker compose) /.test(span)),
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
		.flatMap((part) => /(?:^|[\s(]|\.\/)contacts ((?!from\b)[a-z<-].*)$/.exec(part.trim())?.[1] ?? []);

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
		const roots = new Set(files.filter((file) => file.includes('/')).map((file) => file.split('/')[0]));
		const here = posix.dirname(path);
		const wrong = page.spans.filter((span) => {
			if (/^[\w*][\w*.-]*\.ts$/.test(span)) return !exists(`**/${span}`);
			const looksLikePath = /^[\w@.*-]+(\/[\w@.*-]+)+\/?$/.test(span);
			if (!looksLikePath || !(roots.has(span.split('/')[0]) || span.startsWith('src/'))) return false;
			return !exists(span) && !exists(posix.join(here, span));
		});
		expect(wrong).toEqual([]);
	});

	test('calls only commands and options that the operator’s command has', () => {
		const mentioned = page.spans.filter((span) => program.commands.some((each) => span.startsWith(`${each.name()} `)));
		const wrong = [...shellOf(page).flatMap(callsIn), ...mentioned].flatMap((call) => wrongCall(call) ?? []);
		expect(wrong).toEqual([]);
	});

	test('calls only scripts and commands that exist', () => {
		const { scripts } = JSON.parse(read('package.json')) as { scripts: object };
		const programs = readdirSync(join(root, 'node_modules/.bin'));
		const known = [...Object.keys(scripts), ...programs, 'install', 'exec', 'pack'];
		const called = [...page.text.matchAll(/pnpm@12 (?:--\S+ \S+ )?([a-z:]+)/g)].map(([, script]) => script);
		expect(called.filter((script) => !known.includes(String(script)))).toEqual([]);
	});
});

test('the map of the test kit names every file of it', () => {
	const named = new Set(pageAt('packages/testing/README.md').spans.map((span) => span.split('/').at(-1)));
	const kit = files.filter((path) => /^packages\/testing\/src\/[^/]*\.ts$/.test(path));
	expect(kit.filter((path) => !named.has(posix.basename(path)))).toEqual([]);
});
