import { readTracing, readVariables, serviceVariables } from '@contacts/common/process/config.js';
import { variables as companyVariables } from '@contacts/company-contacts/config.js';
import { crmVariables, variables as syncVariables, toCrmConfig } from '@contacts/crm-sync/config.js';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { files, read } from './pages.js';

const compose = read('docker-compose.yml');
const { services: containers } = parse(compose, { merge: true }) as {
	services: Record<string, { environment?: Record<string, string> }>;
};
const environmentOf = (container: string) => containers[container]?.environment ?? {};

/** `.env.example`: every variable with its value. Only the compose file uses those that are commented out. */
const example = new Map(
	[...read('.env.example').matchAll(/^(?:# )?([A-Z][A-Z0-9_]+)=(.*)$/gm)].map(
		([, name, value]) => [name, value] as const,
	),
);

/** Variables that the compose file builds from others, or fixes for the network between the containers. */
const composed = ['DATABASE_URL', 'REDIS_URL', 'HOST', 'PORT'];

/** Variables that the images set. */
const ofImage = Object.fromEntries(
	[...read('Dockerfile').matchAll(/^ENV ([A-Z]+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
);

const tracing = [...example.keys()].filter((name) => name?.startsWith('OTEL_')).map(String);

/** The names of variables in a program's source. */
const namesIn = (folder: string, pattern: RegExp) =>
	files
		.filter((path) => path.startsWith(folder) && path.endsWith('.ts') && !/\.test\.ts$|\/testing\/|\/dist\//.test(path))
		.flatMap((path) => [...read(path).matchAll(pattern)].map(([, name]) => String(name)));

/** Each container with the variables that its program reads. */
const programs: [
	container: string,
	variables: ReturnType<typeof serviceVariables> | typeof companyVariables | typeof syncVariables,
][] = [
	['personal-contacts', serviceVariables(3001)],
	['company-contacts', companyVariables],
	['crm-sync', syncVariables],
];

const passwords = [...read('operations/postgres/passwords.sql').matchAll(/\\getenv \w+ (\w+)/g)].map(([, name]) =>
	String(name),
);
const operatorReads = [
	...namesIn('tools/cli/src', /environment\.([A-Z][A-Z0-9_]+)/g),
	// `{ NAME: name }: NodeJS.ProcessEnv` and `const { NAME } = environment`
	...namesIn('tools/cli/src', /[{,] ([A-Z][A-Z0-9_]+)(?=[^{}]*\}(?:: NodeJS\.ProcessEnv| = environment))/g),
	...Object.keys(crmVariables.properties),
];

/** Values as Docker Compose fills them in: `${NAME:-default}`. An empty value counts as not set. */
function filledIn(container: string, settings: Record<string, string>): Record<string, string> {
	const fill = (value: unknown) =>
		String(value).replaceAll(/\$\{([A-Z0-9_]+)(?::-([^}]*))?\}/g, (_, name, usual = '') => settings[name] || usual);
	return {
		...ofImage,
		...Object.fromEntries(Object.entries(environmentOf(container)).map(([name, value]) => [name, fill(value)])),
	};
}

describe.each(programs)('the container %s', (container, variables) => {
	const names = Object.keys(variables.properties);

	test('gets every variable that its service reads', () => {
		const given = Object.keys(filledIn(container, {}));
		expect([...names, ...tracing].filter((name) => !given.includes(name))).toEqual([]);
	});

	test('gets no other variable', () => {
		expect(Object.keys(environmentOf(container)).filter((name) => ![...names, ...tracing].includes(name))).toEqual([]);
	});

	test('passes on what .env sets', () => {
		const settable = [...names, ...tracing].filter((name) => !composed.includes(name));
		const settings = Object.fromEntries(settable.map((name) => [name, `value of ${name}`]));
		expect(filledIn(container, settings)).toMatchObject(settings);
	});

	test.each([
		['no .env', {}],
		[
			'.env.example as it is',
			Object.fromEntries(
				[...read('.env.example').matchAll(/^([A-Z0-9_]+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
			),
		],
	])('starts with %s, on its defaults and without tracing', async (_, settings) => {
		const needed = { BITRIX24_WEBHOOK_URL: 'https://portal.example/rest/1/secret/' };
		const environment = filledIn(container, { ...settings, ...needed });
		const usual = Object.fromEntries(
			Object.entries(variables.properties)
				.filter(([name]) => !composed.includes(name))
				.flatMap(([name, { default: value }]) => (value === undefined ? [] : [[name, String(value)]])),
		);
		const values = readVariables(variables, environment);
		const texts = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, String(value)]));
		expect(texts).toMatchObject(usual);
		const optional = names.filter((name) => !(name in usual) && ![...composed, 'TRUST_PROXY'].includes(name));
		expect(optional.filter((name) => name in values)).toEqual(container === 'crm-sync' ? ['BITRIX24_WEBHOOK_URL'] : []);
		expect(readTracing(environment)).toBe(false);
	});
});

describe('the operator’s command', () => {
	test('gets every variable that it reads in one of its two containers', () => {
		const given = [...Object.keys(environmentOf('contacts')), ...Object.keys(environmentOf('migrate'))];
		// Belongs to the embedded database, which no container has.
		const needed = operatorReads.filter((name) => name !== 'LOCAL_DATA_DIR');
		expect(needed.length).toBeGreaterThan(10);
		expect(needed.filter((name) => !given.includes(name))).toEqual([]);
	});

	test('calls the CRM and Redis with the same settings as the services', () => {
		const settings = { BITRIX24_WEBHOOK_URL: 'https://portal.example/rest/1/secret/', BITRIX24_UF_TROUBLE: 'UF_CRM_1' };
		const environment = filledIn('contacts', settings);
		expect(toCrmConfig(readVariables(crmVariables, environment))).toMatchObject({
			webhookUrl: settings.BITRIX24_WEBHOOK_URL,
			codes: { trouble: 'UF_CRM_1', reason: undefined },
		});
		expect(environment.REDIS_URL).toBe(filledIn('company-contacts', {}).REDIS_URL);
		expect(environment.BITRIX24_INTERVAL_SECONDS).toBe('300');
	});

	test('gets no variable that it does not read', () => {
		for (const container of ['contacts', 'migrate'])
			expect(Object.keys(environmentOf(container)).filter((name) => !operatorReads.includes(name))).toEqual([]);
	});
});

test('only the database’s container gets the passwords of the roles, each the one that is part of a URL', () => {
	expect(passwords).toHaveLength(7);
	expect(
		Object.keys(environmentOf('postgres'))
			.filter((name) => name.endsWith('_DATABASE_PASSWORD'))
			.sort(),
	).toEqual([...passwords].sort());
	for (const [container, { environment = {} }] of Object.entries(containers)) {
		if (container === 'postgres') continue;
		expect(
			Object.keys(environment).filter((name) => passwords.includes(name)),
			container,
		).toEqual([]);
		const [, password] = /:(\$\{\w+:-[^}]*\})@postgres:/.exec(environment.DATABASE_URL ?? '') ?? [];
		const given = password ?? environment.PGPASSWORD;
		if (given !== undefined) expect(Object.values(environmentOf('postgres')), container).toContain(given);
	}
});

test.each([
	['gateway', 'default.conf.template'],
	['bot-gateway', 'bot.conf.template'],
])('%s gets only the variables of its template: no password and no key', (container, template) => {
	const names = [...read(`gateway/${template}`).matchAll(/\$\{([A-Z0-9_]+)\}/g)].map(([, name]) => String(name));
	expect(Object.keys(environmentOf(container)).sort()).toEqual([...new Set(names)].sort());
	expect(JSON.stringify(environmentOf(container))).not.toMatch(/PASSWORD|TOKEN|WEBHOOK|DATABASE|REDIS/);
});

describe('.env.example', () => {
	const withTls = compose + read('operations/tls/docker-compose.yml');
	const interpolated = new Set([...withTls.matchAll(/\$\{([A-Z0-9_]+)/g)].map(([, name]) => String(name)));

	test('has every variable that a service or the compose file reads', () => {
		const names = programs.flatMap(([, variables]) => Object.keys(variables.properties));
		const ofTracing = namesIn('packages/common/src/process/config.ts', /'?\b(OTEL_[A-Z_]+)\b/g);
		expect(ofTracing.length).toBeGreaterThan(3);
		expect([...names, ...ofTracing, ...interpolated].filter((name) => !example.has(name))).toEqual([]);
	});

	test('has only variables that reach a container', () => {
		expect(
			[...example.keys()].filter((name) => !interpolated.has(String(name)) && !composed.includes(String(name))),
		).toEqual([]);
	});

	test('shows the default of the compose file for each published port and limit', () => {
		for (const [, name = '', usual] of withTls.matchAll(/\$\{([A-Z0-9_]+):-([^}]*)\}/g))
			if (!/PASSWORD|TRUST_PROXY/.test(name)) expect(example.get(name), name).toBe(usual);
	});
});

test('the compose file has no nested default, which older versions of Docker Compose cut in half', () => {
	expect(compose.match(/\$\{[^}]*\$/g)).toBe(null);
});
