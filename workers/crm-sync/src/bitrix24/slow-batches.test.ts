import { type Fault, type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { steppedClock } from '@contacts/testing/stepped-clock.js';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type CrmClient, createCrmClient, policies } from './client.js';

let standIn: StandIn;
let client: CrmClient;

const clock = steppedClock();

function createClient(responseTimeoutMs = 60_000): CrmClient {
	const { webhookUrl } = standIn;
	return createCrmClient({ webhookUrl, policy: policies.standard, clock, responseTimeoutMs });
}

beforeEach(async () => {
	standIn = await startStandIn({ clock: clock.now });
	onTestFinished(() => standIn.close());
	for (let n = 1; n <= 50; n++) standIn.add({ lastName: `Contact ${n}` });
	client = createClient();
});

const commandsOf = (ids: number[]) => ids.map((id) => ({ method: 'crm.item.get', params: { entityTypeId: 3, id } }));
const all = Array.from({ length: 50 }, (_, index) => index + 1);

/** The ID or the error's code of each outcome. */
async function batch(ids = all): Promise<unknown[]> {
	const outcomes = await client.batch(commandsOf(ids), { waits: true });
	return outcomes.map((outcome) =>
		outcome instanceof Error ? outcome.code : (outcome.result as { item: { id: number } }).item.id,
	);
}

const commandsIn = ({ params }: { params: unknown }) => Object.values((params as { cmd: Record<string, string> }).cmd);
/** How many commands each batch had. */
const sizes = () => standIn.requests.map((request) => commandsIn(request).length);

/** What batches get that are longer than this, or that have this command. */
const failLonger = (size: number, fault: Fault) =>
	standIn.faults.always(fault, { method: 'batch', when: (request) => commandsIn(request).length > size });
const failWith = (ids: number[], fault: Fault) =>
	standIn.faults.always(fault, {
		method: 'batch',
		when: (request) => commandsIn(request).some((command) => ids.some((id) => command.endsWith(`&id=${id}`))),
	});
const tooSlow: Fault = { kind: 'html', status: 504 };

const tooLarge: Fault = { kind: 'text-before-json', text: ' '.repeat(9 * 1024 * 1024) };
/** The CRM takes so long for each command, and cuts a request off after a minute. */
function takeTime(commandMs: number): void {
	standIn.onRequest((request) => {
		if (request.method === 'batch') clock.advance(Math.min(commandMs * commandsIn(request).length, 60_000));
	});
}

describe('a batch that the CRM does not finish in time', () => {
	test.each<Fault>([
		tooSlow,
		{ kind: 'error', code: 'SOMETHING_NEW', status: 504 },
		{ kind: 'cut-off' },
		{ kind: 'reset' },
	])('twice, but a single command of it, is halved, and the size that passes is kept: %j', async (fault) => {
		takeTime(4000);
		failLonger(15, fault);
		expect(await batch()).toEqual(all);
		expect(sizes()).toEqual([50, 50, 1, 25, 13, 12, 25, 13, 12]);
		standIn.requests.length = 0;
		expect(await batch()).toEqual(all);
		expect(sizes()).toEqual([13, 13, 13, 11]);
		expect(standIn.blockedRequests).toBe(0);
	});

	test('is halved when nothing comes before the timeout', async () => {
		client = createClient(3000);
		failLonger(25, { kind: 'hang' });
		expect(await batch()).toEqual(all);
		expect(sizes()).toEqual([50, 50, 1, 25, 25]);
	});

	test('is doubled as soon as the CRM takes less than twenty seconds', async () => {
		takeTime(2000);
		failLonger(25, tooSlow);
		await batch();
		standIn.requests.length = 0;
		await batch();
		expect(sizes()).toEqual([25, 25]);
		takeTime(-1500);
		standIn.requests.length = 0;
		standIn.faults.clear();
		for (let n = 0; n < 2; n++) await batch();
		expect(sizes()).toEqual([25, 25, 50]);
	});

	test('because of one record leaves that alone unread', async () => {
		failWith([17], tooSlow);
		const expected: unknown[] = [...all];
		expected[16] = 'not_json_504';
		expect(await batch()).toEqual(expected);
		expect(sizes()).toEqual([50, 50, 1, 25, 13, 12, 6, 3, 3, 2, 1, 1, 1, 6, 25]);
		standIn.faults.clear();
		standIn.requests.length = 0;
		// Batches become longer again as they pass.
		for (let n = 0; n < 2; n++) expect(await batch()).toEqual(all);
		expect(sizes()).toEqual([1, 2, 4, 8, 16, 19, 32, 18]);
	});

	test.each([[[1]], [[1, 26]], [[1, 2, 3, 20, 50]]])(
		'whose first records are those that take too long has the others read: %j',
		async (slow) => {
			failWith(slow, tooSlow);
			expect(await batch()).toEqual(all.map((id) => (slow.includes(id) ? 'not_json_504' : id)));
		},
	);

	test('and neither three single commands of it says that the CRM is down, after some seconds', async () => {
		failLonger(0, tooSlow);
		const begun = clock.now();
		await expect(batch()).rejects.toMatchObject({ code: 'not_json_504', kind: 'retry' });
		expect(sizes()).toEqual([50, 50, 1, 1, 1]);
		expect(clock.now() - begun).toBeGreaterThan(15_000);
		standIn.requests.length = 0;
		standIn.faults.clear();
		expect(await batch()).toEqual(all);
		expect(sizes()).toEqual([50]);
	});

	test('and has one command leaves it unread if the CRM finishes another one', async () => {
		failWith([7], tooSlow);
		expect(await batch([7])).toEqual(['not_json_504']);
		expect(sizes()).toEqual([1, 1, 1]);
		failLonger(0, tooSlow);
		await expect(batch([7])).rejects.toMatchObject({ code: 'not_json_504', kind: 'retry' });
		expect(sizes()).toHaveLength(6);
	});
});

describe('a response that is too large', () => {
	test('for a batch is asked for once, and then in halves', async () => {
		failLonger(25, tooLarge);
		expect(await batch()).toEqual(all);
		expect(sizes()).toEqual([50, 25, 25]);
	});

	test('for one record leaves it unread', async () => {
		failWith([1], tooLarge);
		expect(await batch()).toEqual(['response_too_large', ...all.slice(1)]);
		standIn.requests.length = 0;
		expect(await batch([1])).toEqual(['response_too_large']);
		expect(sizes()).toEqual([1]);
	});

	test('for a page stops after one request', async () => {
		standIn.faults.always(tooLarge);
		const page = client.call('crm.item.list', { entityTypeId: 3 }, (response) => response);
		await expect(page).rejects.toMatchObject({ code: 'response_too_large', kind: 'stop' });
		expect(client.requests).toBe(1);
	});
});

test.each<[string, Fault]>([
	['too many requests', { kind: 'error', code: 'QUERY_LIMIT_EXCEEDED' }],
	['a used-up operating time', { kind: 'error', code: 'OPERATION_TIME_LIMIT' }],
	['an error of the CRM', { kind: 'error', code: 'INTERNAL_SERVER_ERROR' }],
	['HTML with another status', { kind: 'html', status: 502 }],
])('a batch that fails with %s is sent again as it was', async (_, fault) => {
	standIn.faults.next(fault, { method: 'batch', inBatch: false, times: 3 });
	expect(await batch()).toEqual(all);
	expect(sizes()).toEqual([50, 50, 50, 50]);
});

test('a CRM that refuses connections is tried as often as before', async () => {
	await standIn.close();
	await expect(batch()).rejects.toMatchObject({ code: 'network' });
	expect(client.requests).toBe(6);
});

test('a part that is refused stops the ones after it, and keeps those before it', async () => {
	takeTime(2000);
	failLonger(25, tooSlow);
	await batch();
	standIn.requests.length = 0;
	standIn.faults.always(
		{ kind: 'error', code: 'OVERLOAD_LIMIT' },
		{ method: 'crm.item.get', when: ({ params }) => Number(params.id) === 1 },
	);
	expect(await batch()).toEqual(['OVERLOAD_LIMIT', ...all.slice(1, 25), ...Array(25).fill('OVERLOAD_LIMIT')]);
	expect(sizes()).toEqual([25]);
});
