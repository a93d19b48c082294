import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DrawnPanel, Series } from './chart.js';
import { freePorts } from './launcher.js';
import { startProcess } from './process.js';
import { waitUntil } from './wait-until.js';

interface Dashboard {
	panels: {
		type: string;
		title: string;
		fieldConfig?: { defaults?: { unit?: string } };
		targets?: { expr: string; legendFormat?: string }[];
	}[];
}

/** A Prometheus that scrapes these targets every second (Debian: prometheus). */
export async function startPrometheus(folder: string, targets: Record<string, string>) {
	const { company: port } = await freePorts();
	const jobs = Object.entries(targets).map(([job, target]) => ({
		job_name: job,
		static_configs: [{ targets: [target] }],
	}));
	const config = join(folder, 'prometheus.yml');
	// JSON is valid YAML.
	await writeFile(config, JSON.stringify({ global: { scrape_interval: '1s' }, scrape_configs: jobs }));
	const prometheus = startProcess('prometheus', [
		`--config.file=${config}`,
		`--storage.tsdb.path=${join(folder, 'prometheus')}`,
		`--web.listen-address=127.0.0.1:${port}`,
	]);
	const ask = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).json() as Promise<unknown>;
	await waitUntil(async () => (await fetch(`http://127.0.0.1:${port}/-/ready`).catch(() => undefined))?.ok === true, {
		timeoutMs: 15_000,
		message: prometheus.output,
	});
	return { ask, stop: () => prometheus.stop() };
}

export type Prometheus = Awaited<ReturnType<typeof startPrometheus>>;

/** The series of the dashboard's time series panels for the last seconds, except for those with only 0. */
export async function readPanels(prometheus: Prometheus, seconds: number): Promise<DrawnPanel[]> {
	const path = fileURLToPath(new URL('../../../operations/grafana/contacts.json', import.meta.url));
	const { panels } = JSON.parse(await readFile(path, 'utf8')) as Dashboard;
	const end = Date.now() / 1000;
	const read = panels
		.filter(({ type }) => type === 'timeseries')
		.map(async ({ title, fieldConfig, targets = [] }) => ({
			title,
			unit: fieldConfig?.defaults?.unit,
			series: (await Promise.all(targets.map((target) => readTarget(prometheus, target, end - seconds, end)))).flat(),
		}));
	return (await Promise.all(read)).filter(({ series }) => series.some(isAboveZero));
}

async function readTarget(
	{ ask }: Prometheus,
	{ expr, legendFormat = '' }: { expr: string; legendFormat?: string },
	start: number,
	end: number,
): Promise<Series[]> {
	const query = expr.replaceAll(/\$(job|instance)/g, '.*').replaceAll('$__rate_interval', '10s');
	const asked = new URLSearchParams({ query, start: String(start), end: String(end), step: '1' });
	const { data } = (await ask(`/api/v1/query_range?${asked}`)) as {
		data: { result: { metric: Record<string, string>; values: [number, string][] }[] };
	};
	return data.result.flatMap(({ metric, values }) => {
		const points = values.map(([time, value]) => [time - start, Number(value)] as [number, number]);
		const finite = points.filter(([, value]) => Number.isFinite(value));
		const name = legendFormat.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) =>
			label === 'instance' ? '' : (metric[label] ?? ''),
		);
		return finite.length > 1 ? [{ name: name.trim() || (metric.job ?? ''), points: finite }] : [];
	});
}

const isAboveZero = ({ points }: Series) => points.some(([, value]) => value > 0);
