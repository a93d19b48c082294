import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Bench, type Scenario, startReference, startService } from '../bench.js';
import { companiesOf } from '../data.sql.js';
import { credentials } from '../database.js';
import { load } from '../load/load.js';
import { type Comparison, compare, type Target } from '../report.js';
import { costOf, cpuOf, interleave, type Measurement, type Subject } from '../rounds.js';
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
	/** Requests the changes after the last one instead of the list. */
	nothingNew?: boolean;
	connections: number;
	/** The target: the highest cost, as a multiple of the reference's. */
	atMost?: number;
	long?: boolean;
}

const reference = 'raw node:http, same bytes';

/** Header fields that every Node.js server adds itself, and those of the connection. */
const ownHeaders = ['date', 'connection', 'keep-alive', 'transfer-encoding'];

export const listScenarios: Scenario[] = [
	{ name: 'list, one company', contacts: 10_000, filtered: true, connections: 16, atMost: 2 },
	{ name: 'list of 10,000', contacts: 10_000, connections: 8, atMost: 1.15 },
	{ name: 'list of 10,000, gzip', contacts: 10_000, encoding: 'gzip' as const, connections: 16, long: true },
	{ name: 'list of 10,000, br', contacts: 10_000, encoding: 'br' as const, connections: 16, long: true },
	{ name: '304', contacts: 10_000, unchanged: true, connections: 16, atMost: 2.3 },
	{ name: 'changes, nothing new', contacts: 10_000, nothingNew: true, connections: 16, atLeast: 0.75 },
	{ name: 'list of 100,000', contacts: 100_000, connections: 4 },
].map((scenario): Scenario => ({ ...scenario, run: (bench) => measureList(bench, scenario) }));

async function measureList(bench: Bench, scenario: ListScenario): Promise<Comparison[]> {
	const { name, contacts, filtered = false, encoding, unchanged = false, connections, atMost } = scenario;
	await bench.database.haveCompanyContacts(contacts);
	const ours = await startService(bench, 'company-contacts', name);
	const path = scenario.nothingNew
		? await pathOfNothingNew(ours.url)
		: `/api/company_contacts.list?${credentials}${filtered ? `&company_id=${companiesOf(contacts) / 2}` : ''}`;
	const headers: Record<string, string> = encoding ? { 'accept-encoding': encoding } : {};
	if (unchanged) {
		const entityTag = headerOf(await takeSample({ url: ours.url + path, headers }), 'etag');
		if (entityTag === undefined) throw new Error('the list has no entity tag');
		headers['if-none-match'] = entityTag;
	}
	const status = unchanged ? 304 : 200;
	const sample = await takeSample({ url: ours.url + path, headers });
	if (sample.status !== status) throw new Error(`our answer has the status ${sample.status} in place of ${status}`);
	if (encoding !== undefined && headerOf(sample, 'content-encoding') !== encoding) {
		throw new Error(`our answer is not encoded with ${encoding}`);
	}

	const theirs = await startSameBytes(bench, sample);
	for (const url of [ours.url, theirs.url]) checkSame(sample, await takeSample({ url: url + path, headers }));
	const subject = (label: string, server: RunningServer) =>
		listsOf(bench, label, server, { paths: [path], headers, connections, status, bytes: sample.body.length });
	const measured = await interleave(
		{ theirs: subject(reference, theirs), ours: subject('ours', ours) },
		bench.settings.rounds,
		(text) => bench.progress(`${name}, ${text}`),
	);
	for (const url of [ours.url, theirs.url]) checkSame(sample, await takeSample({ url: url + path, headers }));

	const target: Target | undefined = atMost === undefined ? undefined : { of: 'cost', atMost };
	const streamed = headerOf(sample, 'transfer-encoding') !== undefined;
	const comparisons = [
		compare({
			scenario: name,
			figure: 'throughput',
			unit: '/s',
			ours: measured.ours.map(({ perSecond }) => perSecond),
			reference: {
				name: reference,
				values: measured.theirs.map(({ perSecond }) => perSecond),
				cpu: cpuOf(measured.theirs),
				cost: costOf(measured.theirs),
			},
			...(target ? { target } : {}),
			cpu: cpuOf(measured.ours),
			cost: costOf(measured.ours),
			notes: [
				`${sample.body.length} bytes of body, ${connections} connections`,
				...(unchanged ? [] : [streamed ? 'streamed from the database' : 'sent from memory']),
			],
		}),
		...comparePeaks(name, ours, { name: reference, server: theirs }),
	];
	return comparisons;
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
export const companiesInTurn: Scenario = {
	name: 'lists of 1,000 companies',
	async run(bench) {
		const { name } = companiesInTurn;
		await bench.database.haveCompanyContacts(10_000);
		const server = await startService(bench, 'company-contacts', name);
		const pathOf = (company: number) => `/api/company_contacts.list?${credentials}&company_id=${company}`;
		const paths = Array.from({ length: manyCompanies }, (_, index) => pathOf(index + 1));
		const { body } = await takeSample({ url: server.url + pathOf(1) });
		const usual = { connections: 16, status: 200, bytes: body.length };
		const one = 'our service, one company';
		const measured = await interleave(
			{
				one: listsOf(bench, one, server, { ...usual, paths: [pathOf(1)] }),
				ours: listsOf(bench, 'ours', server, { ...usual, paths }),
			},
			bench.settings.rounds,
			(text) => bench.progress(`${name}, ${text}`),
		);
		return [
			compare({
				scenario: name,
				figure: 'throughput',
				unit: '/s',
				ours: measured.ours.map(({ perSecond }) => perSecond),
				reference: {
					name: one,
					values: measured.one.map(({ perSecond }) => perSecond),
					cpu: cpuOf(measured.one),
					cost: costOf(measured.one),
				},
				target: { of: 'ratio', atLeast: 0.9 },
				cpu: cpuOf(measured.ours),
				cost: costOf(measured.ours),
			}),
		];
	},
};

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

/** A reference that responds with the bytes of this sample. */
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
	return startReference(bench, 'same-bytes', [folder]);
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
		throw new Error('the reference and our service did not answer with the same bytes all the time');
	}
}
