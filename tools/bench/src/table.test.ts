import { expect, test } from 'vitest';
import { compare, type Report } from './report.js';
import { tableOf } from './table.js';

const cpu = (server: number, generator: number) => ({ server, generator });

const report: Report = {
	version: 2,
	machine: {
		date: '2026-01-02T03:04:05.678Z',
		platform: 'linux x64',
		cpu: 'A processor',
		cores: 2,
		memory_mib: 4096,
		load_average: 0.5,
		node: 'v24.0.0',
		postgresql: '18.4',
		postgresql_settings: { fsync: 'on' },
		data_in_memory: false,
	},
	settings: { rounds: 3, seconds: 2, warm_up_seconds: 1, profiled: false, generator: 'wrk' },
	comparisons: [
		compare({
			scenario: 'list',
			figure: 'throughput',
			unit: '/s',
			ours: [8000, 9000, 8500],
			baseline: { name: 'raw', values: [10_000, 10_000, 10_000], cpu: cpu(0.5, 1), cost: 17.04 },
			target: { of: 'cost', atMost: 2 },
			cpu: cpu(0.85, 0.9),
			cost: 34.25,
			notes: ['10 bytes'],
		}),
		compare({
			scenario: 'list',
			figure: 'peak memory',
			unit: 'MiB',
			ours: [251],
			target: { of: 'ours', atMost: 250 },
		}),
	],
	repeated: ['list: "ours" was measured again, because 3 of 9 requests failed.'],
	failures: [{ scenario: 'upserts', message: 'responses with a status other than 200: 3 of status 500' }],
	seconds: 12,
};

test('the table shows figures, ratios with their spread, targets, failures, and where the generator was the limit', () => {
	expect(tableOf(report)).toBe(`\
scenario  figure       ours     baseline       ratio (min–max)   target     met  CPU a request
list      throughput   8,500/s  10,000/s  raw  0.85 (0.80–0.90)  CPU ≤ 2    NO   34.3 µs, × 2.01
list      peak memory  251 MiB  –              –                 ≤ 250 MiB  NO   –

FAILED  upserts: responses with a status other than 200: 3 of status 500
list: 10 bytes.
list: the load generator was the limit of "raw" (server 50 % of a core, ours 85 %).
list: "ours" was measured again, because 3 of 9 requests failed.
3 rounds of 2 s, loaded by wrk; 2 × A processor, Node.js v24.0.0, PostgreSQL 18.4, 12 s in all
`);
});

test('the table warns when a database in memory, the profiler or a busy machine make the figures unreliable', () => {
	const machine = { ...report.machine, data_in_memory: true, load_average: 1.5 };
	const table = tableOf({ ...report, machine, settings: { ...report.settings, profiled: true } });
	expect(table).toContain('The database was in memory');
	expect(table).toContain('with the profiler on');
	expect(table).toContain('busy before the run (load 1.5)');
});
