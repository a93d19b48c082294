import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lexer, type Token, type Tokens, walkTokens } from 'marked';

export const root = fileURLToPath(new URL('../..', import.meta.url));

export interface CodeBlock {
	language: string;
	text: string;
	/** The block that follows directly, such as the response to a request. */
	next?: CodeBlock;
}

/** A page of the documentation. */
export interface Page {
	/** Relative to the root of the repository. */
	path: string;
	text: string;
	/** The targets of its links. */
	links: string[];
	/** Text in backticks within sentences. */
	spans: string[];
	blocks: CodeBlock[];
	/** The anchors that links can lead to. */
	anchors: string[];
}

export const read = (path: string) => readFileSync(join(root, path), 'utf8');

const skipped = ['.git', '.local', 'node_modules'];

/** By hand: from Node.js 22 on, `recursive` follows links, and those in node_modules lead in circles. */
function filesBelow(folder: string): string[] {
	return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
		const path = posix.join(folder, entry.name);
		if (entry.isFile()) return [path];
		return entry.isDirectory() && !skipped.includes(entry.name) ? filesBelow(path) : [];
	});
}

/** Every file of the repository, build output included, relative to its root. */
export const files: readonly string[] = filesBelow('');

const isPage = /^([A-Z]+\.md|docs\/(decisions\/)?[^/]+\.md|(packages|tools|services|operations)\/[^/]+\/README\.md)$/;

export const pages: readonly Page[] = files.filter((path) => isPage.test(path)).map(readPage);

export function pageAt(path: string): Page {
	const page = pages.find((each) => each.path === path);
	if (page === undefined) throw new Error(`there is no page ${path}`);
	return page;
}

/** The text of a page below this heading of the second level. */
export function sectionOf(path: string, heading: string): string {
	const [, section = ''] = pageAt(path).text.split(`\n## ${heading}\n`);
	return section.split('\n## ')[0] ?? '';
}

function readPage(path: string): Page {
	const text = read(path);
	const tokens = lexer(text);
	const page: Page = { path, text, links: [], spans: [], blocks: readBlocks(tokens), anchors: [] };
	void walkTokens(tokens, (token) => {
		if (token.type === 'link') page.links.push((token as Tokens.Link).href);
		if (token.type === 'codespan') page.spans.push((token as Tokens.Codespan).text);
		if (token.type === 'heading') page.anchors.push(anchorOf((token as Tokens.Heading).text));
	});
	return page;
}

function readBlocks(tokens: Token[]): CodeBlock[] {
	const [blocks, shown] = [[] as CodeBlock[], tokens.filter(({ type }) => type !== 'space')];
	for (const [index, token] of shown.entries()) {
		if (token.type !== 'code') continue;
		const { lang = '', text } = token as Tokens.Code;
		const block: CodeBlock = { language: lang, text };
		if (shown[index - 1]?.type === 'code') (blocks.at(-1) as CodeBlock).next = block;
		blocks.push(block);
	}
	return blocks;
}

/** The anchor that GitHub makes of a heading. */
function anchorOf(heading: string): string {
	return heading
		.toLowerCase()
		.replace(/[^\p{L}\p{N}\s_-]/gu, '')
		.replaceAll(' ', '-');
}
