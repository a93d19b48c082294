import { join } from 'node:path';
import { dispose, type Launcher, launch } from '@contacts/testing/launcher.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CodeBlock, pageAt, pages } from '../docs/pages.js';
import { paste } from '../docs/paste.js';

const folder = sharedFolder();
let demo: Launcher;

beforeAll(async () => {
	demo = await launch(join(folder, 'data'));
	await demo.ready();
});
afterAll(() => dispose(demo));

const callsDemo = ({ language, text }: CodeBlock) =>
	language === 'sh' && /127\.0\.0\.1:300[01]/.test(text) && !/docker compose|\.\/contacts /.test(text);
const runsCommand = ({ language, text }: CodeBlock) =>
	language === 'sh' &&
	text.split('\n').every((line) => /^npx -y pnpm@12 contacts (--help|project|key|audit)/.test(line));
const blocks = pages.flatMap(({ path, blocks }) =>
	blocks.flatMap((block, n) =>
		callsDemo(block) || runsCommand(block) ? [[`${path}, block ${n + 1}`, block] as const] : [],
	),
);

/** What lines print, with the ports of this demo. */
async function printedBy(text: string): Promise<string> {
	const { company, personal } = demo.ports;
	const lines = text
		.replaceAll('127.0.0.1:3000', `127.0.0.1:${company}`)
		.replaceAll('127.0.0.1:3001', `127.0.0.1:${personal}`);
	return (await paste(lines, folder, { LOCAL_DATA_DIR: demo.dataFolder })).stdout();
}

/** Where the documentation has … the output may have anything. */
function like(documented: unknown): unknown {
	if (documented === '…') return expect.any(String);
	if (Array.isArray(documented)) return documented.map(like);
	if (typeof documented !== 'object' || documented === null) return documented;
	return Object.fromEntries(Object.entries(documented).map(([name, value]) => [name, like(value)]));
}

/** A documented response: a status line, some headers, and an optional body. */
function expectResponse(documented: string, response: string): void {
	const [wantedHead = '', wantedBody] = documented.split('\n\n');
	const [head = '', body = ''] = response.replaceAll('\r', '').split('\n\n');
	for (const line of wantedHead.split('\n')) {
		const pattern = line.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('…', '.+');
		expect(head).toMatch(new RegExp(`^${pattern}$`, 'mi'));
	}
	if (wantedBody !== undefined) expect(JSON.parse(body)).toEqual(like(JSON.parse(wantedBody)));
}

describe('a pasted example does what the documentation shows below it', () => {
	test.each(blocks)('%s', async (_, { text, next }) => {
		const printed = await printedBy(text);
		if (next?.language === 'json') expect(JSON.parse(printed)).toEqual(like(JSON.parse(next.text)));
		if (next?.language === 'http') expectResponse(next.text, printed);
	});
});

test.each(['README.md', 'docs/partners.md', 'docs/bot.md'])('%s shows requests with their responses', (path) => {
	expect(blocks.filter(([name, { next }]) => name.startsWith(path) && next !== undefined)).not.toEqual([]);
});

test('a request beyond the limit gets the response that the partner’s guide shows', async () => {
	const documented = pageAt('docs/partners.md').blocks.find(({ text }) => text.startsWith('HTTP/1.1 429'));
	const url = `http://127.0.0.1:${demo.ports.company}/api/company_contacts.list?company_id=7&project=demo&api_key=demo-key`;
	const responses = await Promise.all(Array.from({ length: 300 }, () => fetch(url)));
	const refused = responses.find(({ status }) => status === 429);
	const headers = [...(refused?.headers ?? [])].map(([name, value]) => `${name}: ${value}`);
	const response = ['HTTP/1.1 429 Too Many Requests', ...headers, '', await refused?.text()].join('\n');
	expectResponse(documented?.text ?? '', response);
});
