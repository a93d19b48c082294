import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { Agent, createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '@contacts/local-postgres/ports.js';
import { urlAs } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { makeCertificate } from '@contacts/testing/certificate.js';
import { createTestDatabase, rolePassword, type TestDatabase } from '@contacts/testing/database.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { startNginx } from '@contacts/testing/nginx.js';
import { environmentOf, type RunningProcess, startProcess } from '@contacts/testing/process.js';
import { startRedis } from '@contacts/testing/redis.js';
import { type ProgramName, type RunningService, startService } from '@contacts/testing/services.js';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { describe, expect } from 'vitest';
import { parse, stringify } from 'yaml';
import { alertmanagerFile } from './alertmanager-file.js';

// Each alert fires on what the running services and exporters expose, and reaches the receiver. Prometheus runs on the shipped
// files, fifteen times as fast: it scrapes and evaluates every second, and all ranges are shorter by the same factor.

const speed = 15;

/** Limits that a test can't reach without harm to its machine, and what stands there instead: the metrics are real. */
const replacedLimits: Record<string, [limit: string, replacement: string]> = {
	Memory: ['384 * 1024 * 1024', '16 * 1024 * 1024'],
	DiskFull: ['< 0.1', '<= 1'],
};

const operations = new URL('../../operations/', import.meta.url).pathname;
const read = (path: string) => readFileSync(join(operations, path), 'utf8');
const folder = sharedFolder();
const reports = join(folder, 'reports');

type Labels = Record<string, string>;
interface RuleFile {
	groups: { rules: { alert: string; expr: string; for?: string }[] }[];
}
const ruleFile = parse(read('prometheus/alerts.yml')) as RuleFile;
const rules = ruleFile.groups.flatMap((group) => group.rules);

/** A range, such as [5m] or [1h:1m], in this test's time. */
function faster(range: string): string {
	const seconds: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };
	return range.replaceAll(/(\d+)([smhd])/g, (_, count: string, unit: string) => {
		return `${Math.round((Number(count) * (seconds[unit] ?? 0)) / speed)}s`;
	});
}

const stops: (() => unknown)[] = [];
let prometheusUrl: string;
let redis: RunningProcess;
let crm: StandIn;
let other: TestDatabase;
let otherProxy: TcpProxy;
let prometheus: RunningProcess;
/** The names of the alerts that the webhook has received. */
const delivered = new Set<string>();
const services: Record<string, RunningService> = {};
let exporters: { process: RunningProcess; address: string }[];
let anotherRelease: Server;

const addressOf = (name: string) => new URL(services[name]?.url ?? '').host;
const addressOfServer = (server: Server) => `127.0.0.1:${(server.address() as AddressInfo).port}`;

/** What Prometheus finds under the name of this job. */
function setTargets(job: string, targets: string[]): void {
	const file = join(folder, `${job}.json`);
	writeFileSync(`${file}.part`, JSON.stringify([{ targets }]));
	renameSync(`${file}.part`, file);
}

async function ask<Data>(path: string): Promise<Data> {
	return ((await (await fetch(`${prometheusUrl}/api/v1/${path}`)).json()) as { data: Data }).data;
}

async function firing(): Promise<Labels[]> {
	const { alerts } = await ask<{ alerts: { labels: Labels; state: string }[] }>('alerts');
	return alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels);
}

const isFiring = async (alert: string, labels: Labels) =>
	(await firing()).some((each) =>
		Object.entries({ alertname: alert, ...labels }).every(([name, value]) => each[name] === value),
	);

async function serve(respond: (body: string) => string | Promise<string>): Promise<Server> {
	const server = createServer((incoming, response) => {
		let body = '';
		incoming.setEncoding('utf8').on('data', (text: string) => {
			body += text;
		});
		incoming.on('end', async () => response.end(await respond(body)));
	}).listen(0, '127.0.0.1');
	await once(server, 'listening');
	stops.unshift(() => server.close());
	return server;
}

async function startExporter() {
	const address = `127.0.0.1:${await freePort()}`;
	const process = startProcess('prometheus-node-exporter', [
		...['--collector.disable-defaults', '--collector.filesystem', '--collector.textfile'],
		...[`--collector.textfile.directory=${reports}`, `--web.listen-address=${address}`],
	]);
	stops.unshift(() => process.stop());
	return { process, address };
}

async function start(name: string, program: ProgramName, url: string, more: Record<string, string> = {}) {
	const service = await startService(program, { DATABASE_URL: urlAs(url, program, rolePassword), ...more });
	services[name] = service;
	stops.unshift(() => service.stop('SIGKILL'));
}

async function startPrometheus(alertmanager: string): Promise<void> {
	for (const rule of rules) {
		const [limit, replacement] = replacedLimits[rule.alert] ?? ['', ''];
		expect(rule.expr).toContain(limit);
		rule.expr = rule.expr.replace(limit, replacement).replaceAll(/\[[^\]]+\]/g, faster);
		// A single evaluation on a busy machine is no condition.
		if (rule.for !== undefined) rule.for = '2s';
	}
	writeFileSync(join(folder, 'alerts.yml'), stringify(ruleFile));
	const config = parse(read('prometheus/prometheus.yml')) as { scrape_configs: { job_name: string }[] };
	const jobs = [...config.scrape_configs.map(({ job_name }) => job_name), 'leaving'];
	const file = join(folder, 'prometheus.yml');
	const scrape = (job: string) => ({
		job_name: job,
		file_sd_configs: [{ files: [join(folder, `${job}.json`)], refresh_interval: '1s' }],
	});
	const changed = {
		...config,
		global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
		alerting: { alertmanagers: [{ static_configs: [{ targets: [alertmanager] }] }] },
		scrape_configs: jobs.map(scrape),
	};
	writeFileSync(file, stringify(changed));
	const address = `127.0.0.1:${await freePort()}`;
	prometheusUrl = `http://${address}`;
	prometheus = startProcess('prometheus', [
		...[`--config.file=${file}`, `--storage.tsdb.path=${join(folder, 'data')}`, `--web.listen-address=${address}`],
	]);
	stops.unshift(() => prometheus.stop());
	await waitUntil(
		() =>
			fetch(`${prometheusUrl}/-/ready`).then(
				({ ok }) => ok,
				() => false,
			),
		{ timeoutMs: 60_000 },
	);
}

async function startAlertmanager(webhook: Server): Promise<string> {
	const file = join(folder, 'alertmanager.yml');
	const config = alertmanagerFile('webhook_configs')
		.replace(/url: .*/, `url: http://${addressOfServer(webhook)}/`)
		.replace(/(?=^ *group_by)/m, '  group_wait: 1s\n');
	writeFileSync(file, config);
	const address = `127.0.0.1:${await freePort()}`;
	const alertmanager = startProcess('prometheus-alertmanager', [
		...[`--config.file=${file}`, `--storage.path=${join(folder, 'silences')}`, '--cluster.listen-address='],
		`--web.listen-address=${address}`,
	]);
	stops.unshift(() => alertmanager.stop());
	return address;
}

test.beforeAll(async () => {
	mkdirSync(reports);
	other = await createTestDatabase();
	stops.unshift(() => other.drop());
	for (const { sql } of [database, other]) await addProject(sql, 'acme', 'acme-key');
	crm = await startStandIn({
		plan: 'enterprise',
		contacts: Array.from({ length: 40 }, (_, index) => ({ id: index + 1 })),
	});
	stops.unshift(() => crm.close());
	const redisPort = await freePort();
	redis = await startRedis(redisPort);
	stops.unshift(() => redis.stop());
	const redisUrl = { REDIS_URL: `redis://127.0.0.1:${redisPort}` };
	otherProxy = await startTcpProxy(other.url);
	stops.unshift(() => otherProxy.close());
	const limits = { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000', DATABASE_POOL_SIZE: '1' };
	await Promise.all([
		start('company', 'company-contacts', database.url, redisUrl),
		start('company broken', 'company-contacts', otherProxy.through(other.url), { ...limits, ...redisUrl }),
		start('personal', 'personal-contacts', database.url),
		start('personal broken', 'personal-contacts', other.url),
		start('sync', 'crm-sync', database.url, {
			BITRIX24_WEBHOOK_URL: crm.webhookUrl,
			BITRIX24_INTERVAL_SECONDS: '3600',
		}),
	]);
	await services.sync?.waitForLine(/run done/);
	exporters = [await startExporter(), await startExporter()];
	// A process of another release: what this one exposes, with another version.
	anotherRelease = await serve(async () => {
		const text = await (await fetch(`${services.company?.url}/metrics`)).text();
		return text.replace(/^(build_info\{version=")[^"]*/m, '$19.9.9');
	});
	setTargets('company-contacts', [addressOf('company'), addressOf('company broken')]);
	setTargets('personal-contacts', [addressOf('personal'), addressOf('personal broken')]);
	setTargets('crm-sync', [addressOf('sync')]);
	setTargets(
		'node',
		exporters.map(({ address }) => address),
	);
	setTargets('leaving', [exporters[0]?.address ?? '']);
	const webhook = await serve((body) => {
		const { alerts } = JSON.parse(body) as { alerts: { status: string; labels: Labels }[] };
		for (const { status, labels } of alerts) if (status === 'firing') delivered.add(labels.alertname ?? '');
		return '';
	});
	await startPrometheus(await startAlertmanager(webhook));
});
test.afterAll(async () => {
	for (const stop of stops) await stop();
});

const agent = new Agent({ keepAlive: true, maxSockets: 4000 });

/** Sends a request, and ignores its response. */
function send(url: string, body?: object): Promise<void> {
	return new Promise((resolve) => {
		const headers = { 'content-type': 'application/json' };
		const sent = request(url, { agent, ...(body && { method: 'POST', headers }) }, (response) =>
			response.resume().on('close', resolve),
		);
		sent.on('error', () => resolve());
		sent.end(body && JSON.stringify(body));
	});
}

const credentials = 'project=acme&api_key=acme-key';
const listUrl = (name: string) => `${services[name]?.url}/api/company_contacts.list?${credentials}`;

/** Does this again and again until the alerts fire. */
async function whileDoing(work: () => Promise<unknown>, condition: () => Promise<void>): Promise<void> {
	let done = false;
	const loop = (async () => {
		while (!done) await work();
	})();
	try {
		await condition();
	} finally {
		done = true;
		await loop;
	}
}

const table: string[] = [];

/** Waits until these alerts fire and Alertmanager has told the receiver, and writes after how many seconds of this test. */
async function expectAlerts(condition: string, alerts: Record<string, Labels>): Promise<void> {
	const startedAt = performance.now();
	await Promise.all(
		Object.entries(alerts).map(async ([alert, labels]) => {
			await waitUntil(async () => delivered.has(alert) && (await isFiring(alert, labels)), {
				timeoutMs: 120_000,
				intervalMs: 250,
				message: () => `${alert} does not fire, or reaches nobody, when ${condition}`,
			});
			proven.add(alert);
			table.push(`${alert} | ${condition} | ${Math.round((performance.now() - startedAt) / 1000)} s`);
		}),
	);
}
const proven = new Set<string>();

function report(script: string, environment: Labels = {}): void {
	const env = environmentOf({ BACKUP_METRICS_DIRECTORY: reports, ...environment });
	execFileSync('sh', [join(operations, 'backup', script), ...(environment.ARGUMENT ? [environment.ARGUMENT] : [])], {
		env,
		stdio: 'pipe',
	});
}

/** Changes the last number of a report, which is its time. */
function setTime(file: string, seconds: number): void {
	const text = readFileSync(join(reports, file), 'utf8');
	writeFileSync(join(reports, file), text.replace(/\d+\n$/, `${Math.round(seconds)}\n`));
}
const hoursAgo = (hours: number) => Date.now() / 1000 - hours * 3600;

async function lockWhile(table: string, work: () => Promise<void>): Promise<void> {
	const lock = await other.sql.reserve();
	try {
		await lock`begin`;
		await lock`lock table ${other.sql(table)} in access exclusive mode`;
		await work();
	} finally {
		await lock`rollback`;
		lock.release();
	}
}

/** A sync run at once, as "contacts sync" requests it. */
const requestFullRun = () =>
	database.sql`update crm_sync_requests set requested = 'full', requested_at = clock_timestamp()`;

describe('every alert fires on what runs', () => {
	test('but none while nothing is wrong', async () => {
		// Prometheus looks for targets every five seconds, which is long in this test's time.
		const responding = async () => {
			const { result } = await ask<{ result: { value: [number, string] }[] }>('query?query=count(up==1)');
			return result[0]?.value[1];
		};
		await expect.poll(responding, { timeout: 60_000 }).toBe('8');
		const withRealLimit = async () => (await firing()).filter(({ alertname = '' }) => !(alertname in replacedLimits));
		await expect.poll(withRealLimit, { timeout: 60_000 }).toEqual([]);
		const evaluatedAt = async () => {
			const { groups } = await ask<{ groups: { lastEvaluation: string }[] }>('rules');
			return Math.min(...groups.map(({ lastEvaluation }) => Date.parse(lastEvaluation)));
		};
		const since = Date.now();
		await expect.poll(evaluatedAt, { timeout: 60_000 }).toBeGreaterThan(since + 5000);
		expect(await withRealLimit()).toEqual([]);
		await expectAlerts('the limit is replaced by 16 MiB', { Memory: { instance: addressOf('company') } });
		await expectAlerts('the limit is replaced by all of the space', { DiskFull: { job: 'node' } });
	});

	test('the reports of the backup', async () => {
		report('report-backup.sh', { ARGUMENT: 'never' });
		setTime('contacts.prom', hoursAgo(26.1));
		await expectAlerts('no backup succeeded since it was set up 26.1 hours ago', { BackupStale: {} });
		report('report-backup.sh');
		await waitUntil(async () => !(await isFiring('BackupStale', {})), { timeoutMs: 60_000 });
		setTime('contacts.prom', hoursAgo(26.1));
		await expectAlerts('the last backup succeeded 26.1 hours ago', { BackupStale: {} });
		const { certificate } = makeCertificate(folder, 'DNS:localhost', 13);
		report('report-certificate.sh', { TLS_CERTIFICATE: certificate });
		await expectAlerts('the certificate ends in 13 days', { CertificateEnds: { job: 'node' } });
		writeFileSync(join(reports, 'damaged.prom'), 'not a metric');
		await expectAlerts('a report is damaged', { ReportsUnreadable: { job: 'node' } });
	});

	test('keys and the rate limit', async () => {
		await database.sql`update api_keys set expires_at = now() + interval '13 days'`;
		await expectAlerts('a key expires in 13 days', { ApiKeyExpires: { project: 'acme' } });
		const wrong = `${services.company?.url}/api/company_contacts.list?project=acme&api_key=wrong`;
		const guess = () => Promise.all(Array.from({ length: 100 }, () => send(wrong)));
		await whileDoing(guess, () =>
			expectAlerts('an address sends wrong keys', { KeysGuessed: { job: 'company-contacts' } }),
		);
		await redis.stop();
		await whileDoing(
			() => send(listUrl('company')),
			() => expectAlerts('Redis is stopped', { LimiterNotShared: { instance: addressOf('company') } }),
		);
	});

	test('the mirror', async () => {
		for (const id of [...crm.contacts.keys()].slice(0, 35)) crm.contacts.delete(id);
		await requestFullRun();
		await expectAlerts('35 of 40 contacts are missing in the CRM', { MirrorAlarm: {} });
		await database.sql`update crm_sync_state set last_success_at = now() - interval '4 hours'`;
		await expectAlerts('the last run succeeded 4 hours ago, with one an hour', {
			MirrorStale: { job: 'company-contacts' },
		});
		crm.faults.always({ kind: 'error', code: 'INVALID_CREDENTIALS', status: 401 });
		await whileDoing(requestFullRun, () =>
			expectAlerts('the CRM refuses the webhook', { MirrorBlocked: {}, SyncRunsFail: {} }),
		);
		await services.sync?.stop('SIGKILL');
		await expectAlerts('the only synchroniser is killed', { NoSynchroniser: {} });
	});

	test('a slow database', async () => {
		let company = 0;
		const list = () => send(`${listUrl('company broken')}&company_id=${++company}`);
		await lockWhile('company_contacts', () =>
			whileDoing(
				() => Promise.all(Array.from({ length: 8 }, list)),
				() =>
					expectAlerts('the table of the contacts is locked', {
						SlowResponses: { route: '/api/company_contacts.list' },
						ConnectionsTaken: { instance: addressOf('company broken') },
						DatabaseErrors: { instance: addressOf('company broken') },
						ServerErrors: { job: 'company-contacts' },
					}),
			),
		);
		const url = `${services['personal broken']?.url}/api/personal_contacts?${credentials}`;
		let chat = 0;
		const upsert = () => send(url, { chat_id: ++chat });
		const pending = new Set<Promise<void>>();
		const wave = async () => {
			for (let count = 0; count < 400 && pending.size < 2500; count++) {
				const one: Promise<void> = upsert().finally(() => pending.delete(one));
				pending.add(one);
			}
			await delay(20);
		};
		await lockWhile('personal_contacts', () =>
			whileDoing(wave, () =>
				expectAlerts('2,500 upserts wait for a locked table', {
					UpsertsQueue: { instance: addressOf('personal broken') },
					Overloaded: { instance: addressOf('personal broken') },
				}),
			),
		);
		await Promise.all(pending);
	});

	test('processes', async () => {
		const { company } = services as { company: RunningService };
		const stall = async () => {
			company.kill('SIGSTOP');
			await delay(600);
			company.kill('SIGCONT');
			await delay(200);
		};
		await whileDoing(stall, () =>
			expectAlerts('the process stands still for 600 ms again and again', {
				EventLoopLag: { instance: addressOf('company') },
			}),
		);
		setTargets('leaving', [addressOfServer(anotherRelease)]);
		await expectAlerts('a process has another version', { ReleasesDiffer: {} });
		setTargets('leaving', []);
		await expectAlerts('the only target of a job loses its name', { TargetGone: { job: 'leaving' } });
		await exporters[1]?.process.stop();
		await expectAlerts('a node exporter is stopped', { TargetGone: { instance: exporters[1]?.address ?? '' } });
		setTargets('personal-contacts', [addressOf('personal')]);
		await expectAlerts('one of two replicas loses its name', { ReplicaGone: { job: 'personal-contacts' } });
	});

	test('the gateway', async () => {
		const gateway = await startNginx(gatewayConfig(new URL(services.company?.url ?? '').host));
		const check = () => Promise.all(Array.from({ length: 10 }, () => send(`${gateway.url}/openapi.json`)));
		// As the health check of the container does in more than two hours of a day.
		const checks = async () => {
			const query = 'sum(http_requests_total{route="/openapi.json",status="200"})';
			const { result } = await ask<{ result: { value: [number, string] }[] }>(
				`query?query=${encodeURIComponent(query)}`,
			);
			return Number(result[0]?.value[1] ?? 0);
		};
		await whileDoing(check, async () => {
			await waitUntil(async () => (await checks()) > 1300, { timeoutMs: 60_000 });
			expect(await isFiring('GatewayDown', {})).toBe(false);
		});
		await gateway.stop();
		await expectAlerts('the gateway is stopped', { GatewayDown: {} });
	});

	test('a database that is gone, and a service that is', async () => {
		otherProxy.cut();
		await whileDoing(
			() => Promise.all([send(listUrl('company broken')), delay(50)]),
			() =>
				expectAlerts('the database refuses connections', {
					DatabaseDown: { instance: addressOf('company broken') },
					ApiKeysStale: { instance: addressOf('company broken') },
				}),
		);
		const instance = addressOf('company broken');
		await services['company broken']?.stop('SIGKILL');
		await expectAlerts('a service is killed', { ServiceDown: { instance } });
	});

	test('and there are no others', () => {
		process.stdout.write(`${table.join('\n')}\n`);
		// Only a cluster has a standby. alerts.test.yml proves this alert on what Patroni exposes.
		const all = rules
			.map(({ alert }) => alert)
			.filter((alert) => alert !== 'StandbyMissing')
			.toSorted();
		expect([...proven].toSorted()).toEqual(all);
	});
});
