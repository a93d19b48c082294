import { join } from 'node:path';
import { serviceVariables } from '@contacts/common/process/config.js';
import { variables as companyVariables } from '@contacts/company-contacts/config.js';
import { variables as syncVariables } from '@contacts/crm-sync/config.js';
import { variables as startVariables } from '@contacts/local/settings.js';
import { expect, test } from 'vitest';
import { read, root } from './pages.js';

type Variables = Record<string, { default?: string; allowed?: string; description?: string }>;

const personalVariables = serviceVariables(3001);
const { DATABASE_POOL_SIZE, ...common }: Variables = personalVariables.properties;
const services: [string, { properties: Variables; required?: string[] }][] = [
	['company-contacts', companyVariables],
	['personal-contacts', personalVariables],
	['the synchroniser', syncVariables],
];

const ports = services.map(([name, { properties }]) => `${properties.PORT?.default} (${name})`).join(', ');

const page = 'docs/configuration.md';
const marker = '<!-- Generated from the schemas of the variables: npx -y pnpm@12 reference updates it. -->\n';

function table(heading: string, variables: Variables, required: string[]): string {
	const rows = Object.entries(variables).map(([name, { default: usual, allowed, description }]) => {
		expect(description, name).toMatch(/\w/);
		const value = name === 'PORT' ? ports : (usual ?? (required.includes(name) ? 'required' : 'none'));
		const isToldAbove = variables !== common && common[name]?.allowed === allowed;
		const shown = isToldAbove ? 'as above' : allowed?.replace('an integer from ', '');
		return `| \`${name}\` | ${value} | ${description} | ${shown} |`;
	});
	return `\n## ${heading}\n\n| variable | default | meaning | allowed |\n|---|---|---|---|\n${rows.join('\n')}\n`;
}

const without = (variables: Variables, others: Variables): Variables =>
	Object.fromEntries(Object.entries(variables).filter(([name]) => !(name in others)));

test('docs/configuration.md has every variable of every process', async () => {
	const required = services.flatMap(([, schema]) => schema.required ?? []);
	const tables = [
		table('All processes', common, required),
		table('company-contacts and personal-contacts', { DATABASE_POOL_SIZE }, required),
		table('company-contacts', without(companyVariables.properties, personalVariables.properties), required),
		table('The synchroniser', without(syncVariables.properties, common), required),
		table('The command start', startVariables.properties, []),
	];
	const [prose = ''] = read(page).split(marker);
	await expect(prose + marker + tables.join('')).toMatchFileSnapshot(join(root, page));
});
