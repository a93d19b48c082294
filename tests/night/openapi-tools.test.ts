import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { service as company } from '@contacts/company-contacts/app.js';
import { service as personal } from '@contacts/personal-contacts/app.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';

// What programs of others make of /openapi.json: each of them has sent requests without one of the two credentials.

const tools = [
	'openapi-to-postmanv2@6.3.3',
	'newman@6.2.2',
	'@usebruno/converters@0.23.0',
	'@hey-api/openapi-ts@0.95.0',
	'orval@7.13.2',
	'typescript@5.9.3',
];
/** The body of each operation that has one. */
const bodies: Record<string, object> = {
	personal_contacts: { chat_id: 4, name: 'Ivan' },
	direct_subscriptions: { chat_id: 5, active: true },
};

let folder: string;
let apps: { name: string; app: TestApp; document: object }[];

test.beforeAll(async () => {
	await addProject(database.sql, 'demo', 'demo-key');
	folder = mkdtempSync(join(tmpdir(), 'contacts-tools-'));
	writeFileSync(join(folder, 'package.json'), '{}');
	execFileSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', ...tools], {
		cwd: folder,
		stdio: 'pipe',
	});
	apps = await Promise.all(
		[company, personal].map(async (service) => {
			const app = await startTestApp(service as typeof company, database.url);
			const document = (await (await app.fetch('/openapi.json')).json()) as object;
			writeFileSync(join(folder, `${service.name}.json`), JSON.stringify(document));
			return { name: service.name, app, document };
		}),
	);
}, 300_000);
afterAll(async () => {
	await Promise.all((apps ?? []).map(({ app }) => app.close()));
	rmSync(folder, { recursive: true, force: true });
});

const load = (name: string) => createRequire(join(folder, 'package.json'))(name);

interface PostmanItem {
	item?: PostmanItem[];
	request: {
		url: { path: string[]; query?: { key: string; value: string; disabled?: boolean }[] };
		header?: { key: string; disabled?: boolean }[];
		body?: { raw: string };
	};
}

/** What a person fills in: the project, and a body. */
function fillIn({ item, request }: PostmanItem): void {
	for (const each of item ?? []) fillIn(each);
	if (item !== undefined) return;
	for (const parameter of request.url.query ?? []) {
		if (parameter.key === 'project') parameter.value = 'demo';
		else if (parameter.key !== 'api_key') parameter.disabled = true;
	}
	for (const header of request.header ?? []) header.disabled = /if-none-match/i.test(header.key);
	const body = bodies[request.url.path.at(-1) ?? ''];
	if (request.body !== undefined && body !== undefined) request.body.raw = JSON.stringify(body);
}

test('imported into Postman, each request has both credentials and gets a 200', async () => {
	const statuses: number[] = [];
	for (const { app, document } of apps) {
		const collection = await new Promise<{ item: PostmanItem[] }>((resolve, reject) =>
			load('openapi-to-postmanv2').convert(
				{ type: 'json', data: document },
				{},
				(error: unknown, { output }: { output: { data: { item: PostmanItem[] } }[] }) =>
					output?.[0] ? resolve(output[0].data) : reject(error),
			),
		);
		collection.item.forEach(fillIn);
		const envVar = [
			{ key: 'baseUrl', value: app.url },
			{ key: 'apiKey', value: 'demo-key' },
		];
		const { run } = await new Promise<{ run: { executions: { response?: { code: number } }[] } }>((resolve, reject) =>
			load('newman').run({ collection, envVar, reporters: [] }, (error: unknown, summary: never) =>
				error ? reject(error) : resolve(summary),
			),
		);
		statuses.push(...run.executions.map(({ response }) => response?.code ?? 0));
	}
	expect(statuses).toEqual([200, 200, 200, 200]);
});

test('imported into Bruno, each request has the project, and the collection the key', async () => {
	for (const { document } of apps) {
		const { items, root } = await load('@usebruno/converters').openApiToBruno(document);
		expect(root.request.auth.apikey).toMatchObject({ key: 'api_key', placement: 'queryparams' });
		const requests = items.flatMap(({ items: inFolder, request }: never) => inFolder ?? [{ request }]) as {
			request: { params: { name: string }[] };
		}[];
		expect(requests).toHaveLength(2);
		for (const { request } of requests) expect(request.params.map(({ name }) => name)).toContain('project');
	}
});

test('two generators make clients that compile strictly, and the calls of one get a 200', async () => {
	const calls: Record<string, string[]> = {
		'company-contacts': ['companyContactsList({ query })', 'companyContactsChanges({ query })'],
		'personal-contacts': [
			`personalContactsUpsert({ query, body: ${JSON.stringify(bodies.personal_contacts)} })`,
			`directSubscriptionsSet({ query, body: ${JSON.stringify(bodies.direct_subscriptions)} })`,
		],
	};
	// The services run in this process, which must go on.
	const run = (program: string, ...args: string[]) =>
		promisify(execFile)(process.execPath, [join(folder, program), ...args], { cwd: folder });
	for (const { name, app } of apps) {
		await run(
			'node_modules/@hey-api/openapi-ts/bin/run.js',
			'-i',
			`${name}.json`,
			'-o',
			`hey-${name}`,
			'-c',
			'@hey-api/client-fetch',
		);
		await run(
			'node_modules/orval/dist/bin/orval.js',
			'--input',
			`./${name}.json`,
			'--output',
			`./orval-${name}/api.ts`,
			'--client',
			'fetch',
		);
		const operations = calls[name] ?? [];
		writeFileSync(
			join(folder, `use-${name}.ts`),
			`import { client } from './hey-${name}/client.gen';
import { ${operations.map((call) => call.replace(/\(.*/, '')).join(', ')} } from './hey-${name}/sdk.gen';
client.setConfig({ baseUrl: ${JSON.stringify(app.url)}, auth: 'demo-key' });
const query = { project: 'demo' };
async function main() {
${operations.map((call) => `console.log((await ${call}).response?.status);`).join('\n')}
}
void main();
`,
		);
		const options = ['--strict', '--target', 'es2022', '--lib', 'es2022,dom,dom.iterable', '--skipLibCheck'];
		const files = [`use-${name}.ts`, `orval-${name}/api.ts`];
		const output = ['--module', 'commonjs', '--moduleResolution', 'node10', '--outDir', `out-${name}`];
		await run('node_modules/typescript/bin/tsc', ...options, ...output, ...files);
		const { stdout } = await run(`out-${name}/use-${name}.js`);
		expect(stdout).toBe('200\n200\n');
	}
});
