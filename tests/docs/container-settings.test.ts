import { readTracing, readVariables, serviceVariables } from '@contacts/common/process/config.js';
import { variables as companyVariables } from '@contacts/company-contacts/config.js';
import { variables as syncVariables } from '@contacts/crm-sync/config.js';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { read } from './pages.js';

const compose = read('docker-compose.yml');
const { services: containers } = parse(compose, { merge: true }) as {
	services: Record<string, { environment?: Record<string, string>; env_file?: unknown }>;
};
const environmentOf = (container: string) => containers[container]?.environment ?? {};

/** The first group of each match. */
const matches = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, group]) => String(group));

/** `.env.example`: every variable with its value. Only the compose file uses those that are commented out. */
const example = new Map(
	[...read('.env.example').matchAll(/^(?:# )?([A-Z][A-Z0-9_]+)=(.*)$/gm)].map(([, name = '', value]) => [name, value]),
);

/** Variables that the compose file builds from others, or fixes for the network between the containers. */
const composed = ['DATABASE_URL', 'REDIS_URL', 'HOST', 'PORT'];

/** Variables that the images set. */
const ofImage = Object.fromEntries(
	[...read('Dockerfile').matchAll(/^ENV ([A-Z]+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
);

/** Each container with the variables that its program reads. */
const programs: [
	container: string,
	variables: ReturnType<typeof serviceVariables> | typeof companyVariables | typeof syncVariables,
][] = [
	['personal-contacts', serviceVariables(3001)],
	['company-contacts', companyVariables],
	['crm-sync', syncVariables],
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

	test('gets the variables that its program reads and no other, and passes on what .env sets', () => {
		expect(names.filter((name) => !(name in filledIn(container, {})))).toEqual([]);
		expect(Object.keys(environmentOf(container)).filter((name) => !names.includes(name))).toEqual([]);
		const settable = names.filter((name) => !composed.includes(name));
		const settings = Object.fromEntries(settable.map((name) => [name, `value of ${name}`]));
		expect(filledIn(container, settings)).toMatchObject(settings);
	});

	test.each([
		['no .env', {}],
		[
			'.env.example as it is',
			Object.fromEntries([...read('.env.example').matchAll(/^(\w+)=(.*)$/gm)].map(([, ...pair]) => pair)),
		],
	])('starts with %s, on its defaults and without tracing', (_, settings) => {
		const webhook = { BITRIX24_WEBHOOK_URL: 'https://crm.example/rest/1/secret/' };
		const environment = filledIn(container, { ...settings, ...webhook });
		const values: Record<string, unknown> = readVariables(variables, environment);
		for (const [name, { default: usual }] of Object.entries(variables.properties)) {
			if ([...composed, 'TRUST_PROXY', 'BITRIX24_WEBHOOK_URL'].includes(name)) continue;
			expect([name, values[name]?.toString()]).toEqual([name, usual?.toString()]);
		}
		expect(readTracing(environment)).toBe(false);
	});
});

test('only the programs read variables of OpenTelemetry, all of them, from a file that has no passwords and need not exist', () => {
	const read = Object.entries(containers).filter(([, each]) => each.env_file !== undefined);
	expect(read.map(([name]) => name).toSorted()).toEqual(programs.map(([name]) => name).toSorted());
	for (const [, { env_file }] of read) expect(env_file).toEqual([{ path: 'opentelemetry.env', required: false }]);
	// What stands in the compose file would hide the file's value.
	expect(compose).not.toContain('OTEL_');
});

test('only the container “roles” gets the passwords of the roles, each the one that is part of a URL', () => {
	const passwords = matches(read('operations/postgres/passwords.sql'), /\\getenv \w+ (\w+)/g);
	const given = Object.keys(environmentOf('roles')).filter((name) => name.endsWith('_DATABASE_PASSWORD'));
	expect(given.toSorted()).toEqual(passwords.toSorted());
	for (const [container, { environment = {} }] of Object.entries(containers)) {
		if (container === 'roles') continue;
		expect([container, Object.keys(environment).filter((name) => passwords.includes(name))]).toEqual([container, []]);
		const [password = environment.PGPASSWORD] = matches(
			environment.DATABASE_URL ?? '',
			/:(\$\{\w+:-[^}]*\})@postgres:/g,
		);
		if (password !== undefined) expect(Object.values(environmentOf('roles')), container).toContain(password);
	}
});

test.each([
	['gateway', 'default.conf.template'],
	['bot-gateway', 'bot.conf.template'],
])('%s gets only the variables of its template: no password and no key', (container, template) => {
	const names = matches(read(`gateway/${template}`), /\$\{([A-Z0-9_]+)\}/g);
	expect(Object.keys(environmentOf(container)).sort()).toEqual([...new Set(names)].sort());
	expect(JSON.stringify(environmentOf(container))).not.toMatch(/PASSWORD|TOKEN|WEBHOOK|DATABASE|REDIS/);
});

test('.env.example has the variables that a service or the compose file reads, and their defaults', () => {
	const all = compose + read('operations/tls/docker-compose.yml') + read('operations/bot-address.yml');
	const interpolated = matches(all, /\$\{([A-Z0-9_]+)/g);
	const names = programs.flatMap(([, variables]) => Object.keys(variables.properties));
	const ofTracing = matches(read('packages/common/src/process/config.ts'), /'?\b(OTEL_[A-Z_]+)\b/g);
	expect(new Set(example.keys())).toEqual(new Set([...names, ...ofTracing, ...interpolated]));
	for (const [, name = '', usual] of all.matchAll(/\$\{([A-Z0-9_]+):-([^}]*)\}/g))
		if (!/PASSWORD|TRUST_PROXY/.test(name)) expect(example.get(name), name).toBe(usual);
});
