import { setTimeout } from 'node:timers/promises';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';

/** Gauges of the library with names of counters, against Prometheus's rules. `nodejs_active_resources` has the same values. */
const misnamed = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

/** A registry with the metrics of the process itself. */
export function createRegistry(version: string): Registry {
	const registry = new Registry();
	collectDefaultMetrics({ register: registry });
	for (const name of misnamed) registry.removeSingleMetric(name);
	new Gauge({
		name: 'build_info',
		help: 'Always 1; its label is the release that runs.',
		labelNames: ['version'],
		registers: [registry],
	}).set({ version }, 1);
	return registry;
}

/** A gauge whose value is read whenever the metrics are collected. */
export function gauge(registry: Registry, name: string, help: string, read: () => number | Promise<number>): void {
	new Gauge({
		name,
		help,
		registers: [registry],
		async collect() {
			this.set(await read());
		},
	});
}

/** The values of a counter's labels, in the order of their names. */
type LabelValues = readonly (string | number)[];

interface LabelledCounter {
	name: string;
	help: string;
	labelNames: readonly string[];
	/** Labels that must exist when the metrics are collected, although nothing was counted for them. */
	known?: () => Iterable<LabelValues>;
}

/** A number by the values of labels, and by those of the labels after them. */
class Count {
	#next: Map<string | number, Count> | undefined;
	uncollected = 0;
	isExposed = false;
	/** Undefined before the first event. */
	labels: Record<string, string | number> | undefined;

	of(value: string | number): Count {
		this.#next ??= new Map();
		let next = this.#next.get(value);
		if (next === undefined) {
			next = new Count();
			this.#next.set(value, next);
		}
		return next;
	}
}

/**
 * Counts numbers, which become a metric when the metrics are collected: for each single event, the library would sort and write
 * out its labels. A number is found value by value, because one text of all values costs four times as much.
 *
 * @returns a function to call for each event
 */
export function countByLabels(
	registry: Registry,
	{ name, help, labelNames, known = () => [] }: LabelledCounter,
): (values: LabelValues, by?: number) => void {
	const root = new Count();
	const counts: Count[] = [];
	const count = (values: LabelValues, by = 1) => {
		let counted = root;
		for (const value of values) counted = counted.of(value);
		counted.uncollected += by;
		if (counted.labels !== undefined) return;
		counted.labels = Object.fromEntries(labelNames.map((label, index) => [label, values[index] as string | number]));
		counts.push(counted);
	};
	new Counter({
		name,
		help,
		labelNames: [...labelNames],
		registers: [registry],
		collect() {
			for (const values of known()) count(values, 0);
			for (const counted of counts) {
				if (counted.isExposed && counted.uncollected === 0) continue;
				this.inc(counted.labels ?? {}, counted.uncollected);
				counted.uncollected = 0;
				counted.isExposed = true;
			}
		},
	});
	return count;
}

/** A counter by the values of one label. All of them begin at 0, so that `increase()` sees the first event too. */
export function counter<Value extends string>(
	registry: Registry,
	name: string,
	help: string,
	label: string,
	values: readonly Value[],
): (value: Value, by?: number) => void {
	const count = countByLabels(registry, { name, help, labelNames: [label] });
	for (const value of values) count([value], 0);
	return (value, by) => count([value], by);
}

/** The timeout for one metric. A collection of metrics must finish within seconds. */
const maxWaitMs = 250;

/**
 * Reads a value at each call. If that takes too long, returns the last known value.
 *
 * @param read must not reject; it is not called again while it runs
 */
export function lastKnown<Value>(read: () => Promise<Value>, initial: Value): () => Promise<Value> {
	let known = initial;
	let reading: Promise<void> | undefined;
	return async () => {
		reading ??= read().then((value) => {
			known = value;
			reading = undefined;
		});
		await Promise.race([reading, setTimeout(maxWaitMs, undefined, { ref: false })]);
		return known;
	};
}
