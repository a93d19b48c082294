import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { pageAt, read } from './pages.js';

test('docs/when-something-is-wrong.md says for every alert what to do, and names no other', () => {
	const { groups } = parse(read('operations/prometheus/alerts.yml')) as { groups: { rules: { alert: string }[] }[] };
	const alerts = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));
	const [, section = ''] = pageAt('docs/when-something-is-wrong.md').text.split('\n## Alerts\n');
	const [table = ''] = section.split('\n## ');
	const named = [...table.matchAll(/`([A-Z]\w+)`/g)].map(([, name]) => String(name));
	expect(named.toSorted()).toEqual(alerts.toSorted());
});
