import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
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

/** Every file of the repository, build output included, relative to its root. */
export const files: readonly string[] = readdirSync(root, { withFileTypes: true }).flatMap((entry) => {
	if (!entry.isDirectory()) return [entry.name];
	if (['.git', '.local', 'node_modules'].includes(entry.name)) return [];
	return readdirSync(join(root, entry.name), { recursive: true, withFileTypes: true })
		.filter((below) => below.isFile() && !below.parentPath.includes('node_modules'))
		.map((below) => join(below.parentPath, below.name).slice(root.length).split(sep).join('/'));
});

const isPage = /^([A-Z]+\.md|docs\/(decisions\/)?[^/]+\.md|(packages|tools|services)\/[^/]+\/README\.md)$/;

export const pages: readonly Page[] = files.filter((path) => isPage.test(path)).map(readPage);

export function pageAt(path: string): Page {
	const page = pages.find((each) => each.path === path);
	if (page === undefined) throw new Error(`there is no page ${path}`);
	return page;
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
