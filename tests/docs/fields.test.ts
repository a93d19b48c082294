import { contactColumnNames } from '@contacts/common/contacts/company-contact-columns.sql.js';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { read, sectionOf } from './pages.js';

/** The names in the first column of the tables below a heading. */
function namedBelow(path: string, heading: string): string[] {
	return [...sectionOf(path, heading).matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => String(name));
}

test('the guide for partners explains every field of a contact', () => {
	expect(namedBelow('docs/partners.md', 'Fields')).toEqual(['id', 'bitrix_id', ...contactColumnNames]);
});

test('docs/mirror.md says where every column comes from', () => {
	expect(namedBelow('docs/mirror.md', 'Columns').toSorted()).toEqual(contactColumnNames.toSorted());
});

test('docs/when-something-is-wrong.md says for every alert what to do, and names no other', () => {
	const { groups } = parse(read('operations/prometheus/alerts.yml')) as { groups: { rules: { alert: string }[] }[] };
	const alerts = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));
	const table = sectionOf('docs/when-something-is-wrong.md', 'Alerts');
	const named = [...table.matchAll(/`([A-Z]\w+)`/g)].map(([, name]) => String(name));
	expect(named.toSorted()).toEqual(alerts.toSorted());
});

test('the guide for the bot’s backend explains every field of a user', () => {
	const { paths } = JSON.parse(read('docs/openapi/personal-contacts.json')) as {
		paths: Record<string, { post: { requestBody: { content: Record<string, { schema: { properties: object } }> } } }>;
	};
	const { schema } = paths['/api/personal_contacts']?.post.requestBody.content['application/json'] ?? {};
	expect(namedBelow('docs/bot.md', 'Save a user')).toEqual(Object.keys(schema?.properties ?? {}));
});

test.each([
	['docs/partners.md', 'company-contacts'],
	['docs/bot.md', 'personal-contacts'],
])('%s says for every error of %s what to do', (guide, service) => {
	const codes = new Set([...read(`docs/openapi/${service}.json`).matchAll(/"code": "(\w+)"/g)].map(([, code]) => code));
	expect(codes).toContain('unauthorized');
	const explained = sectionOf(guide, 'Errors');
	expect([...codes].filter((code) => !explained.includes(`\`${code}\``))).toEqual([]);
});
