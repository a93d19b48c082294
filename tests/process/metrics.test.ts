import { readFileSync } from 'node:fs';
import { collectExposedMetrics } from '@contacts/testing/exposed-metrics.js';
import { database, test } from '@contacts/testing/test.js';
import { parser } from '@prometheus-io/lezer-promql';
import { expect } from 'vitest';
import { parse } from 'yaml';

interface Expression {
	where: string;
	text: string;
}

/** Metrics by name, each with the names of the labels of its samples. A histogram is also listed under the names of its series. */
const exposed = new Map<string, Set<string>>();
const jobs: Record<string, string> = {};

test.beforeAll(async () => {
	Object.assign(jobs, await collectExposedMetrics(database));
	for (const text of Object.values(jobs)) readMetrics(text);
});

function readMetrics(text: string): void {
	for (const line of text.split('\n')) {
		const [, name = '', type = ''] = /^# TYPE (\S+) (\w+)$/.exec(line) ?? [];
		const [, series = '', labels = ''] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
		if (name !== '' && !exposed.has(name)) {
			const names = new Set<string>();
			exposed.set(name, names);
			if (type === 'histogram') for (const end of ['bucket', 'sum', 'count']) exposed.set(`${name}_${end}`, names);
		}
		for (const [, label = ''] of labels.matchAll(/(\w+)="/g)) exposed.get(series)?.add(label);
	}
}

const read = (path: string) => readFileSync(new URL(`../../operations/${path}`, import.meta.url), 'utf8');

interface AlertFile {
	groups: { rules: { alert: string; expr: string }[] }[];
}
const alerts = (parse(read('prometheus/alerts.yml')) as AlertFile).groups.flatMap(({ rules }) => rules);

interface Dashboard {
	panels: { title: string; targets?: { expr: string }[] }[];
	templating: { list: { name: string; query: string | { query: string } }[] };
}
const dashboard = JSON.parse(read('grafana/contacts.json')) as Dashboard;

const expressions: Expression[] = [
	...alerts.map(({ alert, expr }) => ({ where: `alert ${alert}`, text: expr })),
	...dashboard.panels.flatMap(({ title, targets = [] }) =>
		targets.map(({ expr }) => ({ where: `panel ${title}`, text: expr.replaceAll('$__rate_interval', '1m') })),
	),
	...dashboard.templating.list.flatMap(({ name, query }) =>
		typeof query === 'string'
			? []
			: [{ where: `variable ${name}`, text: query.query.replace(/^label_values\((.*), \w+\)$/, '$1') }],
	),
];

/** The metrics in an expression, each with the labels that select it. */
function selectorsOf({ where, text }: Expression): { name: string; labels: string[] }[] {
	const selectors: { name: string; labels: string[] }[] = [];
	parser.parse(text).iterate({
		enter({ type, node, from, to }) {
			if (type.isError) throw new Error(`${where} is no PromQL at "${text.slice(from, from + 20)}"`);
			const part = text.slice(from, to);
			const parent = node.parent?.name ?? '';
			if (type.name === 'Identifier' && parent === 'VectorSelector') selectors.push({ name: part, labels: [] });
			if (type.name === 'LabelName' && parent.endsWith('LabelMatcher')) selectors.at(-1)?.labels.push(part);
		},
	});
	return selectors;
}

/** Labels that Prometheus itself adds. */
const given = ['job', 'instance', 'le'];

test.each(expressions)('$where uses metrics and labels that exist', (expression) => {
	const selectors = selectorsOf(expression);
	expect(selectors).not.toEqual([]);
	for (const selector of selectors) {
		// Metrics of Prometheus itself, of the node exporter, of the scripts whose reports the exporter reads, and of Patroni.
		if (/^(up$|node_|contacts_(backup|certificate)_|patroni_)/.test(selector.name)) continue;
		expect([...exposed.keys()]).toContain(selector.name);
		const labels = [...(exposed.get(selector.name) ?? []), ...given];
		expect(labels, selector.name).toEqual(expect.arrayContaining(selector.labels));
	}
});

test('every job of the scrape configuration is one of our processes, or the node exporter', () => {
	const config = parse(read('prometheus/prometheus.yml')) as { scrape_configs: { job_name: string }[] };
	const names = config.scrape_configs.map(({ job_name }) => job_name);
	expect(names.toSorted()).toEqual([...Object.keys(jobs), 'node'].toSorted());
});
