import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Bench, type Scenario, startBaseline, startService } from '../bench.js';
import { companiesOf } from '../data.sql.js';
import { credentials } from '../database.js';
import { load } from '../load/load.js';
import type { Comparison, Target } from '../report.js';
import { compareLoads, interleave, type Measurement, type Subject } from '../rounds.js';
import { headerOf, type Sample, takeSample } from '../sample.js';
import type { RunningServer } from '../servers.js';
import { comparePeaks } from './memory.js';

interface ListScenario {
	name: string;
	contacts: number;
	/** Requests one company only. */
	filtered?: boolean;
	encoding?: 'gzip' | 'br';
	/** Sends the entity tag of the list back. */
	unchanged?: boolean;
	connections: number;
	/** The target: the highest cost, as a multiple of the baseline's. */
	atMost?: number;
	long?: boolean;
}

const baseline = 'raw node:http, same bytes';

/** Header fields that every Node.js server adds itself, and those of the connection. */
const ownHeaders = ['date', 'connection', 'keep-alive', 'transfer-encoding'];

const listPath = `/api/company_contacts.list?${credentials}`;

export const listScenarios: Scenario[] = [
	{ name: 'list, one company', contacts: 10_000, filtered: true, connections: 16, atMost: 2 },
	{ name: 'list of 10,000', contacts: 10_000, connections: 8, atMost: 1.15 },
	{ name: 'list of 10,000, gzip', contacts: 10_000, encoding: 'gzip' as const, connections: 16, long: true },
	{ name: 'list of 10,000, br', contacts: 10_000, encoding: 'br' as const, connections: 16, long: true },
	{ name: '304', contacts: 10_000, unchanged: true, connections: 16, atMost: 2.3 },
	{ name: 'list of 100,000', contacts: 100_000, connections: 4 },
].map((scenario): Scenario => ({ ...scenario, run: (bench) => measureList(bench, scenario) }));

async function measureList(bench: Bench, scenario: ListScenario): Promise<Comparison[]> {
	const { name, contacts, filtered = false, encoding, unchanged = false, connections, atMost } = scenario;
	await bench.database.haveCompanyContacts(contacts);
	const ours = await startService(bench, 'company-contacts', name);
	const path = `${listPath}${filtered ? `&company_id=${companiesOf(contacts) / 2}` : ''}`;
	const headers = {
		...(encoding ? { 'accept-encoding': encoding } : {}),
		...(unchanged ? { 'if-none-match': await entityTagOf(ours.url + path) } : {}),
	};
	const status = unchanged ? 304 : 200;
	const sample = await takeSample({ url: ours.url + path, headers });
	if (sample.status !== status) throw new Error(`our response has the status ${sample.status} in place of ${status}`);
	if (encoding !== undefined && headerOf(sample, 'content-encoding') !== encoding) {
		throw new Error(`our response is not encoded with ${encoding}`);
	}

	const theirs = await startSameBytes(bench, sample);
	const checkBoth = async () => {
		for (const url of [ours.url, theirs.url]) checkSame(sample, await takeSample({ url: url + path, headers }));
	};
	await checkBoth();
	const subject = (label: string, server: RunningServer) =>
		listsOf(bench, label, server, { paths: [path], headers, connections, status, bytes: sample.body.length });
	const measured = await interleave(bench, name, bench.settings.rounds, {
		theirs: subject(baseline, theirs),
		ours: subject('ours', ours),
	});
	await checkBoth();

	const streamed = headerOf(sample, 'transfer-encoding') !== undefined;
	const notes = [
		`${sample.body.length} bytes of body, ${connections} connections`,
		...(unchanged ? [] : [streamed ? 'streamed from the database' : 'sent from memory']),
	];
	const target = atMost === undefined ? {} : { target: { of: 'cost', atMost } as const };
	return [
		compareLoads(name, measured.ours, { name: baseline, measured: measured.theirs }, { ...target, notes }),
		...comparePeaks(name, ours, { name: baseline, server: theirs }),
	];
}

async function entityTagOf(url: string): Promise<string> {
	const entityTag = headerOf(await takeSample({ url }), 'etag');
	if (entityTag === undefined) throw new Error('the list has no entity tag');
	return entityTag;
}

interface Requests {
	paths: string[];
	headers?: Record<string, string>;
	connections: number;
	status: number;
	bytes: number;
}

function listsOf(
	{ lifetime, settings }: Bench,
	name: string,
	{ url, pid }: RunningServer,
	{ paths, headers = {}, ...rest }: Requests,
): Subject<Measurement> {
	const { warmUpSeconds, seconds } = settings;
	const requests = paths.map((path) => ({ path }));
	return {
		name,
		measure: () => load(lifetime, { pid, url, method: 'GET', headers, requests, warmUpSeconds, seconds, ...rest }),
	};
}

const manyCompanies = 1000;

/** Lists of many companies, requested in turn, compared with the list of one of them. */
const companiesInTurn = compareRequests(
	'lists of 1,000 companies',
	'our service, one company',
	{ of: 'ratio', atLeast: 0.9 },
	async (url) => {
		const paths = Array.from({ length: manyCompanies }, (_, index) => `${listPath}&company_id=${index + 1}`);
		const { body } = await takeSample({ url: `${url}${paths[0]}` });
		const requests = { connections: 16, status: 200, bytes: body.length };
		return { ours: { ...requests, paths }, other: { ...requests, paths: paths.slice(0, 1) } };
	},
);

/** The changes after the last one, compared with the cheapest response to a client that already has everything. */
const nothingNew = compareRequests(
	'changes, nothing new',
	'our service, 304 for the list',
	{ of: 'cost', atMost: 1.05 },
	async (url) => {
		const path = await pathOfNothingNew(url);
		const { body } = await takeSample({ url: url + path });
		const headers = { 'if-none-match': await entityTagOf(url + listPath) };
		return {
			ours: { paths: [path], connections: 16, status: 200, bytes: body.length },
			other: { paths: [listPath], headers, connections: 16, status: 304, bytes: 0 },
		};
	},
);

export const requestScenarios = [nothingNew, companiesInTurn];

/** A scenario that compares two kinds of requests to the same process of our service. */
function compareRequests(
	name: string,
	other: string,
	target: Target,
	requestsTo: (url: string) => Promise<{ ours: Requests; other: Requests }>,
): Scenario {
	return {
		name,
		async run(bench) {
			await bench.database.haveCompanyContacts(10_000);
			const server = await startService(bench, 'company-contacts', name);
			const requests = await requestsTo(server.url);
			const measured = await interleave(bench, name, bench.settings.rounds, {
				other: listsOf(bench, other, server, requests.other),
				ours: listsOf(bench, 'ours', server, requests.ours),
			});
			return [compareLoads(name, measured.ours, { name: other, measured: measured.other }, { target })];
		},
	};
}

/** Follows the changes to their end, and returns the path of what comes after. */
async function pathOfNothingNew(url: string): Promise<string> {
	const path = `/api/company_contacts.changes?${credentials}`;
	for (let cursor = ''; ; ) {
		const { body } = await takeSample({ url: url + path + cursor, headers: {} });
		const page = JSON.parse(body.toString()) as { cursor: string; has_more: boolean };
		cursor = `&cursor=${page.cursor}`;
		if (!page.has_more) return path + cursor;
	}
}

/** A baseline that responds with the bytes of this sample. */
function startSameBytes(bench: Bench, { status, rawHeaders, body }: Sample): Promise<RunningServer> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-bench-bytes-'));
	bench.lifetime.own(() => rmSync(folder, { recursive: true, force: true }));
	const kept = rawHeaders.flatMap((name, index) =>
		index % 2 === 1 || ownHeaders.includes(name.toLowerCase()) ? [] : [name, rawHeaders[index + 1] ?? ''],
	);
	const hasLength = status === 304 || kept.some((text) => text.toLowerCase() === 'content-length');
	if (!hasLength) kept.push('content-length', String(body.length));
	writeFileSync(join(folder, 'head.json'), JSON.stringify({ status, rawHeaders: kept }));
	writeFileSync(join(folder, 'body'), body);
	return startBaseline(bench, ['same-bytes', folder]);
}

/** @throws Error when a response differs from the sample: the comparison would be invalid */
function checkSame(sample: Sample, other: Sample): void {
	const names = ({ rawHeaders }: Sample) =>
		rawHeaders
			.filter((name, index) => index % 2 === 0 && !/^(transfer-encoding|content-length)$/i.test(name))
			.map((name) => name.toLowerCase())
			.sort()
			.join(', ');
	if (sample.status !== other.status || !sample.body.equals(other.body) || names(sample) !== names(other)) {
		throw new Error('the responses of the baseline and of our service did not stay the same');
	}
}
