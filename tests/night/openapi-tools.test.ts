import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { service as company } from '@contacts/company-contacts/app.js';
import { service as personal } from '@contacts/personal-contacts/app.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect, vi } from 'vitest';

// The tools are installed here alone, and nothing that is shipped needs them.
const packages = [
	'openapi-to-postmanv2@6.3.3',
	'newman@6.2.2',
	'@usebruno/converters@0.23.0',
	'@hey-api/openapi-ts@0.95.0',
	'orval@7.13.2',
	'typescript@5.9.3',
	'@redocly/cli@2.77.0',
	'@stoplight/spectral-cli@6.16.3',
];
vi.setConfig({ hookTimeout: 600_000 });

const credentials = { project: 'partner', apiKey: 'partner-key' };
const names = ['company', 'personal'] as const;
const folder = sharedFolder();
const started: TestApp[] = [];

/** The beginning of each program. */
const settings = `import settings from './settings.json' with { type: 'json' };

const { urls, project, apiKey } = settings;
`;

/**
 * Programs that import both documents into a tool, fill in what it leaves to a person (address, project, key), and send each request.
 * They print the statuses by operation.
 */
const programs = {
	'postman.js': `import { promisify } from 'node:util';
import newman from 'newman';
import converter from 'openapi-to-postmanv2';
import documents from './documents.json' with { type: 'json' };

const statuses = {};
for (const [name, data] of Object.entries(documents)) {
	const { output } = await promisify(converter.convert)({ type: 'json', data }, { requestParametersResolution: 'Example' });
	const collection = output[0].data;
	const requests = ({ item, request }) => item?.flatMap(requests) ?? [request];
	for (const { url } of requests(collection)) {
		url.query = url.query.filter(({ description }) => description.startsWith('(Required)'));
		for (const each of url.query) if (each.key === 'project') each.value = project;
	}
	const envVar = Object.entries({ baseUrl: urls[name], apiKey }).map(([key, value]) => ({ key, value }));
	const { run } = await promisify(newman.run)({ collection, envVar });
	for (const { item, response } of run.executions) statuses[item.name] = response?.code;
}
console.log(JSON.stringify(statuses));
`,
	'bruno.js': `import { openApiToBruno } from '@usebruno/converters';
import documents from './documents.json' with { type: 'json' };

const statuses = {};
for (const [name, document] of Object.entries(documents)) {
	const { items, root } = openApiToBruno(document);
	const variables = { baseUrl: urls[name], apiKey };
	const fill = (text) => text.replace(/{{(\\w+)}}/g, (_, variable) => variables[variable]);
	const requests = (item) => item.items?.flatMap(requests) ?? [item];
	for (const { name, request } of items.flatMap(requests)) {
		const url = new URL(fill(request.url));
		for (const each of request.params.filter(({ enabled }) => enabled))
			url.searchParams.append(each.name, each.name === 'project' ? project : each.value);
		const { apikey } = request.auth.mode === 'inherit' ? root.request.auth : request.auth;
		if (apikey.placement === 'queryparams') url.searchParams.append(apikey.key, fill(apikey.value));
		const body = request.body.json ?? undefined;
		const headers = body ? { 'content-type': 'application/json' } : {};
		statuses[name] = (await fetch(url, { method: request.method, headers, body })).status;
	}
}
console.log(JSON.stringify(statuses));
`,
	'hey.ts': `import { client as company } from './hey-company/client.gen.js';
import { companyContactsChanges, companyContactsList } from './hey-company/sdk.gen.js';
import { client as personal } from './hey-personal/client.gen.js';
import { directSubscriptionsSet, personalContactsUpsert } from './hey-personal/sdk.gen.js';

company.setConfig({ baseUrl: urls.company, auth: apiKey });
personal.setConfig({ baseUrl: urls.personal, auth: apiKey });
const query = { project };
const list = await companyContactsList({ query: { ...query, company_id: 7 } });
const count: number | undefined = list.data?.count;
const responses = {
	'List company contacts': count === 0 ? list : undefined,
	'List changes of company contacts': await companyContactsChanges({ query }),
	'Save the user of a personal chat': await personalContactsUpsert({ query, body: { chat_id: 1, name: null } }),
	'Report that a chat subscribes to the bot directly, or leaves it': await directSubscriptionsSet({
		query,
		body: { chat_id: 1, active: true },
	}),
};
const statuses = Object.entries(responses).map(([name, result]) => [name, result?.response?.status]);
console.log(JSON.stringify(Object.fromEntries(statuses)));
`,
	// It generates nothing of credentials: whoever uses it adds the key in the function that sends.
	'orval.ts': `import { companyContactsChanges, companyContactsList } from './orval-company.js';
import { directSubscriptionsSet, personalContactsUpsert } from './orval-personal.js';

const list = await companyContactsList({ project, company_id: 7 });
const count: number | undefined = list.status === 200 ? list.data.count : undefined;
const responses = {
	'List company contacts': count === 0 ? list : undefined,
	'List changes of company contacts': await companyContactsChanges({ project }),
	'Save the user of a personal chat': await personalContactsUpsert({ chat_id: 1, name: null }, { project }),
	'Report that a chat subscribes to the bot directly, or leaves it': await directSubscriptionsSet(
		{ chat_id: 1, active: true },
		{ project },
	),
};
const statuses = Object.entries(responses).map(([name, result]) => [name, result?.status]);
console.log(JSON.stringify(Object.fromEntries(statuses)));
`,
};
const orvalSend = `${settings}
export async function send<T>(target: string, options: RequestInit): Promise<T> {
	const url = new URL(target, target.startsWith('/api/company') ? urls.company : urls.personal);
	url.searchParams.append('api_key', apiKey);
	const response = await fetch(url, options);
	return { data: await response.json(), status: response.status, headers: response.headers } as T;
}
`;
const orvalConfig = (name: string) => ({
	input: { target: `${name}.json` },
	output: {
		...{ target: `orval-${name}.ts`, client: 'fetch', httpClient: 'fetch' },
		override: { mutator: { path: './orval-send.ts', name: 'send', extension: '.js' } },
	},
});
const compilerOptions = {
	...{ strict: true, noUncheckedIndexedAccess: true, noEmitOnError: true, skipLibCheck: false },
	...{ target: 'es2022', module: 'nodenext', resolveJsonModule: true, types: [] },
	lib: ['es2023', 'dom', 'dom.iterable'],
};

const execute = promisify(execFile);
/** Runs an installed tool. @returns its standard output */
async function tool(name: string, ...args: string[]): Promise<string> {
	const quiet = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
	const env = { PATH: process.env.PATH, HOME: folder, ...quiet };
	return (await execute(join(folder, 'node_modules/.bin', name), args, { cwd: folder, env })).stdout;
}

test.beforeAll(async () => {
	await addProject(database.sql, credentials.project, credentials.apiKey);
	const apps = {
		company: await startTestApp(company, database.url),
		personal: await startTestApp(personal, database.url),
	};
	started.push(...Object.values(apps));
	const documents: Record<string, unknown> = {};
	for (const name of names) documents[name] = await (await apps[name].fetch('/openapi.json')).json();
	const urls = { company: apps.company.url, personal: apps.personal.url };
	const files: Record<string, unknown> = {
		'package.json': { private: true, type: 'module' },
		'settings.json': { urls, ...credentials },
		'documents.json': documents,
		...Object.fromEntries(names.map((name) => [`${name}.json`, documents[name]])),
		'.spectral.json': { extends: 'spectral:oas' },
		'orval.config.cjs': `module.exports = ${JSON.stringify(Object.fromEntries(names.map((name) => [name, orvalConfig(name)])))};`,
		'orval-send.ts': orvalSend,
		'tsconfig.json': { compilerOptions, files: ['hey.ts', 'orval.ts'] },
		...Object.fromEntries(
			Object.entries(programs).map(([name, text]) => [name, `${text.replace(/\n\n/, `\n${settings}\n`)}`]),
		),
	};
	for (const [name, content] of Object.entries(files))
		await writeFile(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
	const install = ['install', '--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts'];
	await execute('npm', [...install, ...packages], { cwd: folder });
	for (const name of names)
		await tool('openapi-ts', '-i', `./${name}.json`, '-o', `hey-${name}`, '-c', '@hey-api/client-fetch');
	await tool('orval', '--config', './orval.config.cjs');
	await tool('tsc');
});
afterAll(() => Promise.all(started.map((app) => app.close())));

test.each(Object.keys(programs))('%s gets a 200 from each operation with what was imported', async (name) => {
	const { stdout: printed } = await execute(process.execPath, [name.replace('.ts', '.js')], { cwd: folder });
	expect(JSON.parse(printed)).toEqual({
		'List company contacts': 200,
		'List changes of company contacts': 200,
		'Save the user of a personal chat': 200,
		'Report that a chat subscribes to the bot directly, or leaves it': 200,
	});
});

test.each(names)('the linters have nothing to say about the document of %s', async (name) => {
	const redocly = await tool('redocly', 'lint', `${name}.json`, '--format=json');
	expect(JSON.parse(redocly)).toMatchObject({ totals: { errors: 0, warnings: 0 } });
	expect(await tool('spectral', 'lint', '--format=json', '--fail-severity=hint', `${name}.json`)).toMatch(/^\[\]/);
});
