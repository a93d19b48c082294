import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Bench, type Scenario, startReference, startService } from '../bench.js';
import { companiesOf } from '../data.sql.js';
import { credentials } from '../database.js';
import { load } from '../load/load.js';
import { type Comparison, compare, type Target } from '../report.js';
import { cpuOf, interleave } from '../rounds.js';
import { headerOf, type Sample, takeSample } from '../sample.js';
import type { RunningServer } from '../servers.js';
import { comparePeaks } from './memory.js';

interface ListScenario {
	name: string;
	contacts: number;
	/** Asks for one company only. */
	filtered?: boolean;
	encoding?: 'gzip' | 'br';
	/** Sends the entity tag of the list back. */
	unchanged?: boolean;
	connections: number;
	/** The lowest ratio that is good enough. */
	atLeast?: number;
	long?: boolean;
}

const reference = 'raw node:http, same bytes';

/** Header fields that every Node.js server adds by itself, and those of the connection. */
const ownHeaders = ['date', 'connection', 'keep-alive', 'transfer-encoding'];

export const listScenarios: Scenario[] = [
	{ name: 'list, one company', contacts: 10_000, filtered: true, connections: 16, atLeast: 0.8 },
	{ name: 'list of 10,000', contacts: 10_000, connections: 8, atLeast: 0.85 },
	{ name: 'list of 10,000, gzip', contacts: 10_000, encoding: 'gzip' as const, connections: 16, long: true },
	{ name: 'list of 10,000, br', contacts: 10_000, encoding: 'br' as const, connections: 16, long: true },
	{ name: '304', contacts: 10_000, unchanged: true, connections: 16, atLeast: 0.75 },
	{ name: 'list of 100,000', contacts: 100_000, connections: 4 },
].map((scenario) => ({ name: scenario.name, long: scenario.long, run: (bench) => measureList(bench, scenario) }));

async function measureList(bench: Bench, scenario: ListScenario): Promise<Comparison[]> {
	const { name, contacts, filtered = false, encoding, unchanged = false, connections, atLeast } = scenario;
	const { settings, lifetime } = bench;
	await bench.database.haveCompanyContacts(contacts);
	const ours = await startService(bench, 'company-contacts', name);
	const path = `/api/company_contacts.list?${credentials}${filtered ? `&company_id=${companiesOf(contacts) / 2}` : ''}`;
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
	const subject = (label: string, { url, pid }: RunningServer) => ({
		name: label,
		measure: () =>
			load(lifetime, pid, {
				url: url + path,
				method: 'GET',
				headers,
				upserts: false,
				connections,
				warmUpSeconds: settings.warmUpSeconds,
				seconds: settings.seconds,
				status,
				bytes: sample.body.length,
			}),
	});
	const measured = await interleave(
		{ theirs: subject(reference, theirs), ours: subject('ours', ours) },
		settings.rounds,
		(text) => bench.progress(`${name}, ${text}`),
	);
	for (const url of [ours.url, theirs.url]) checkSame(sample, await takeSample({ url: url + path, headers }));

	const target: Target | undefined = atLeast === undefined ? undefined : { of: 'ratio', atLeast };
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
			},
			...(target ? { target } : {}),
			cpu: cpuOf(measured.ours),
			notes: [
				`${sample.body.length} bytes of body, ${connections} connections`,
				...(unchanged ? [] : [streamed ? 'streamed from the database' : 'sent from memory']),
			],
		}),
		...comparePeaks(name, ours, { name: reference, server: theirs }),
	];
	return comparisons;
}

/** A reference that answers with the bytes of this sample. */
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

/** @throws Error where an answer is not what the sample was: then two different things would be compared */
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
