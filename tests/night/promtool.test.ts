import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { collectExposedMetrics } from '@contacts/testing/exposed-metrics.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { alertmanagerFile } from './alertmanager-file.js';

const operations = fileURLToPath(new URL('../../operations/prometheus/', import.meta.url));
let jobs: Record<string, string>;

test.beforeAll(async () => {
	jobs = await collectExposedMetrics(database);
});

const promtool = (args: string[], input = '') => run('promtool', args, input);

/** The output of a program, and its exit code. */
function run(program: string, args: string[], input: string): Promise<{ code: number; output: string }> {
	return new Promise((resolve, reject) => {
		const child = execFile(program, args, { cwd: operations }, (error, stdout, stderr) => {
			if (error !== null && typeof error.code !== 'number') reject(error);
			else resolve({ code: Number(error?.code ?? 0), output: stdout + stderr });
		});
		child.stdin?.on('error', () => undefined);
		child.stdin?.end(input);
	});
}

describe('promtool finds no problem', () => {
	test.each(['personal-contacts', 'company-contacts', 'crm-sync'])('in the metrics of %s', async (job) => {
		expect(jobs[job]).toContain('# TYPE');
		expect(await promtool(['check', 'metrics'], jobs[job])).toEqual({ code: 0, output: '' });
	});

	test('in the alert rules and the scrape configuration', async () => {
		const { code, output } = await promtool(['check', 'config', 'prometheus.yml']);
		expect(output).toMatch(/SUCCESS: \d+ rules found/);
		expect(code).toBe(0);
	});

	test.each([undefined, 'webhook_configs', 'email_configs'] as const)(
		'in the configuration of Alertmanager, with the receiver %s',
		async (receiver) => {
			const file = join(await temporaryFolder(), 'alertmanager.yml');
			writeFileSync(file, alertmanagerFile(receiver));
			const { code, output } = await run('amtool', ['check-config', file], '');
			expect(output).toMatch(/SUCCESS.*- 1 receivers/s);
			expect(code).toBe(0);
		},
	);

	test('when it tests the rules on made-up series', async () => {
		const { code, output } = await promtool(['test', 'rules', 'alerts.test.yml']);
		expect(output).toContain('SUCCESS');
		expect(code).toBe(0);
	});
});
