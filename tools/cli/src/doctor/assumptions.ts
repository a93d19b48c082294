import type { Command, CommandResult, CrmClient } from '@contacts/crm-sync/bitrix24/client.js';
import {
	type CustomFields,
	hasLess,
	type Item,
	isRow,
	positiveInteger,
	readItem,
} from '@contacts/crm-sync/bitrix24/contact.js';
import { type Crm, itemCommand, timeOf } from '@contacts/crm-sync/bitrix24/crm.js';
import { Bitrix24Error } from '@contacts/crm-sync/bitrix24/errors.js';
import type { Clock } from '@contacts/crm-sync/clock.js';

/** What the mirror takes as true of a CRM, and whether this CRM is so. It contains no data of a person. */
export interface Assumption {
	text: string;
	state: 'holds' | 'differs' | 'not seen';
	/** What the CRM has shown, in numbers. */
	seen: string;
	/** What happens where a CRM differs. */
	consequence: string;
	/** Whether the mirror can't be equal to a CRM that differs. */
	isSerious: boolean;
}

/** A contact as one response has it. */
interface Entry {
	row: Record<string, unknown>;
	item: Item;
}

interface Sample {
	custom: CustomFields;
	categories: ReturnType<Crm['categories']>;
	/** One page of the list, in the order in which it came. */
	listed: Entry[];
	/** The same contacts by their IDs, from one batch. */
	gotten: Entry[];
	/** Whether a contact was found by its own updatedTime, and was not found by a later one; undefined: there was none. */
	isFilteredByTime: boolean | undefined;
	/** The code for a contact that does not exist; undefined: it was returned. */
	absentCode: string | undefined;
	hasClock: boolean;
	operatingSeconds: number | undefined;
	batchMs: number;
}

type Seen = Pick<Assumption, 'state' | 'seen'>;

/** No contact can have this ID: IDs are given one after the other. */
const absentId = 2_147_483_647;

/** A batch has 50 commands, and three are for other questions. */
const maxContacts = 47;

const found = (isSo: boolean, seen: string): Seen => ({ state: isSo ? 'holds' : 'differs', seen });
const notSeen = (seen: string): Seen => ({ state: 'not seen', seen });
const of = (part: unknown[], all: unknown[]) => `${part.length} of ${all.length} contacts`;

const assumptions: {
	text: string;
	consequence: string;
	isSerious?: true;
	look(sample: Sample): Seen;
}[] = [
	{
		text: '`crm.item.get` returns all of `fm` and `companyIds`',
		consequence: 'contacts without them are unread, and the mirror does not count as equal to the CRM',
		isSerious: true,
		look({ gotten }) {
			if (gotten.length === 0) return notSeen('no contact');
			const isAbsent = (name: string) => ['phones', 'companyIds'].includes(name);
			const without = gotten.filter(({ item }) => item.absent.some(isAbsent));
			return found(without.length === 0, `${of(without, gotten)} lack one`);
		},
	},
	{
		text: '`fm` and `companyIds` agree with `hasPhone` and `companyId`',
		consequence: 'what `crm.item.get` returns counts; if many contacts would become empty, it is held',
		look({ gotten }) {
			if (gotten.length === 0) return notSeen('no contact');
			const contradictory = gotten.filter(({ item }) => item.contradicts);
			return found(contradictory.length === 0, `${of(contradictory, gotten)} contradict themselves`);
		},
	},
	{
		text: 'a list that was complete for the compared contacts is complete for all',
		consequence: 'each page is completed by a batch, which takes twice as many requests',
		look({ listed, gotten }) {
			const byId = new Map(gotten.map(({ item }) => [item.id, item]));
			const pairs = listed.flatMap(({ item }) => {
				const other = byId.get(item.id);
				return other !== undefined && other.updatedTime === item.updatedTime ? [[item, other] as const] : [];
			});
			const less = pairs.filter(([row, item]) => hasLess(row, item));
			if (less.length > 0) return found(false, `${of(less, pairs)} have less in the list`);
			const hasMore = (name: 'phones' | 'companyIds', count: number) =>
				pairs.some(([, { fields }]) => (fields[name]?.length ?? 0) >= count);
			if (hasMore('phones', 1) && hasMore('companyIds', 2)) return found(true, `${pairs.length} contacts are equal`);
			return notSeen('no contact with a phone, or none with two companies');
		},
	},
	{
		text: '`companyId` is the primary company',
		consequence: '`company_ids` begins with the company of `companyId`, and keeps the order of the others',
		look({ gotten }) {
			const companies = ({ row }: Entry) => (Array.isArray(row.companyIds) ? row.companyIds.map(positiveInteger) : []);
			const several = gotten.filter((entry) => companies(entry).length > 1 && positiveInteger(entry.row.companyId));
			if (several.length === 0) return notSeen('no contact with two companies');
			const others = several.filter((entry) => companies(entry)[0] !== positiveInteger(entry.row.companyId));
			return found(others.length === 0, `${of(others, several)} with several companies begin with another one`);
		},
	},
	{
		text: 'rows come by ID, and only an empty page is the end',
		consequence: 'each run fails with `rows_out_of_order`',
		isSerious: true,
		look({ listed }) {
			if (listed.length < 2) return notSeen('fewer than two contacts');
			const isInOrder = ({ item }: Entry, index: number) => index === 0 || item.id > (listed[index - 1]?.item.id ?? 0);
			return found(listed.every(isInOrder), `${listed.length} rows`);
		},
	},
	{
		text: 'only `NOT_FOUND` says that a contact is deleted',
		consequence: 'contacts that are deleted in the CRM stay in the mirror, and an alarm counts them',
		isSerious: true,
		look({ absentCode }) {
			if (absentCode === undefined) return notSeen('a contact has the highest possible ID');
			return found(absentCode.toUpperCase() === 'NOT_FOUND', absentCode);
		},
	},
	{
		text: "the filter `'@categoryId': [0, …]` leaves out all other categories",
		consequence: 'other rows are left out; full runs are incomplete if the CRM counts them',
		look({ listed, categories }) {
			if (listed.length === 0) return notSeen('no contact');
			const others = listed.filter(({ item }) => !categories.ordinary.has(item.categoryId ?? Number.NaN));
			return found(others.length === 0, `${of(others, listed)} are in other categories`);
		},
	},
	{
		text: "`crm.category.list` has all categories that the webhook's user may read",
		consequence:
			'refused: only the general one is read, and what is mirrored of others stays; left out: its contacts are unread',
		look: ({ categories: { ordinary, system, refusedBy } }) =>
			found(refusedBy === undefined, refusedBy ?? `${ordinary.size} to mirror and ${system.size} of the CRM itself`),
	},
	{
		text: 'every response has `time.date_start`',
		consequence: 'each run fails with `no_portal_clock`',
		isSerious: true,
		look: ({ hasClock }) => found(hasClock, hasClock ? 'the list has it' : 'the list lacks it'),
	},
	{
		text: 'the filter `>=updatedTime` obeys the offset of a time',
		consequence: 'incremental runs miss changes until the daily full run, or read too much',
		look({ isFilteredByTime: isFiltered }) {
			if (isFiltered === undefined) return notSeen('no contact');
			return found(
				isFiltered,
				isFiltered ? 'one contact by its own time' : 'a contact is not found by its own time alone',
			);
		},
	},
	{
		text: 'a change moves `updatedTime`',
		consequence: 'the daily full run finds the change',
		look: () => notSeen('nothing is changed'),
	},
	{
		text: 'a batch of 50 contacts ends within 60 seconds',
		consequence: 'the CRM cuts it, and smaller batches are sent',
		look: ({ batchMs, gotten }) =>
			found(batchMs < 60_000, `${gotten.length} contacts in ${(batchMs / 1000).toFixed(1)} s`),
	},
	{
		text: 'a method may work for 480 seconds in ten minutes',
		consequence: 'other programs use it up: runs wait, and take longer',
		look({ operatingSeconds: seconds }) {
			if (seconds === undefined) return notSeen('no `time.operating`, as on a self-hosted CRM');
			return found(seconds < 480, `crm.item.list has worked for ${seconds.toFixed(1)} s`);
		},
	},
	{
		text: 'the custom fields are each a text, a number, yes or no, a link or a list',
		consequence: 'each run fails with the name of the field',
		look({ custom }) {
			const fields = [custom.trouble, custom.reason].filter((field) => field !== undefined);
			// Others have been refused before.
			return fields.length === 0 ? notSeen('none is configured') : found(true, `${fields.length} of them`);
		},
	},
];

/**
 * Compares a page of the list with the same contacts by their IDs, in two requests that change nothing.
 *
 * @throws Bitrix24Error
 */
export async function examineAssumptions(client: CrmClient, crm: Crm, clock: Clock): Promise<Assumption[]> {
	const [custom, categories] = [crm.fields(), crm.categories()];
	const params = crm.pageParams({ after: 0 });
	const { result, at, operatingSeconds } = await client.call('crm.item.list', params, (response) => response);
	const listed = entriesOf(isRow(result) ? result.items : undefined, custom).slice(0, maxContacts);
	const timed = listed.find(({ item }) => !Number.isNaN(timeOf(item)));
	const commands: Command[] = [
		...listed.map(({ item }) => itemCommand(item.id)),
		itemCommand(absentId),
		...(timed === undefined ? [] : [0, 1000].map((later) => sinceCommand(crm, timed.item, later))),
	];
	const begun = clock.now();
	const outcomes = await client.batch(commands, { waits: false });
	const batchMs = clock.now() - begun;
	// The two lists only answer a question of their own.
	const stopped = outcomes
		.slice(0, listed.length + 1)
		.find((outcome) => outcome instanceof Bitrix24Error && ['stop', 'pause'].includes(outcome.kind));
	if (stopped instanceof Bitrix24Error) throw stopped;
	const resultOf = (outcome: CommandResult | undefined, name: string) =>
		outcome instanceof Bitrix24Error || !isRow(outcome?.result) ? undefined : outcome.result[name];
	const gotten = entriesOf(
		outcomes.slice(0, listed.length).map((outcome) => resultOf(outcome, 'item')),
		custom,
	);
	const absent = outcomes[listed.length];
	const [own, later] = outcomes.slice(listed.length + 1).map((outcome) => resultOf(outcome, 'items'));
	const isFirst = (rows: unknown) => entriesOf(rows, custom)[0]?.item.id === timed?.item.id;
	const isUnchanged = gotten.some(
		({ item }) => item.id === timed?.item.id && item.updatedTime === timed.item.updatedTime,
	);
	const isAnswered = isUnchanged && Array.isArray(own) && Array.isArray(later);
	const sample: Sample = {
		...{ custom, categories, listed, gotten, batchMs, operatingSeconds },
		isFilteredByTime: isAnswered ? isFirst(own) && !isFirst(later) : undefined,
		absentCode: absent instanceof Bitrix24Error ? absent.code : undefined,
		hasClock: at !== undefined,
	};
	return assumptions.map(({ look, isSerious = false, ...assumption }) => ({
		...assumption,
		isSerious,
		...look(sample),
	}));
}

function entriesOf(rows: unknown, custom: CustomFields): Entry[] {
	if (!Array.isArray(rows)) return [];
	return rows.flatMap((row: unknown) => {
		const item = readItem(row, custom);
		return item === undefined || !isRow(row) ? [] : [{ row, item }];
	});
}

/** The list from a contact on, of what was changed since its own time, or some milliseconds after that. */
function sinceCommand(crm: Crm, item: Item, later: number): Command {
	const params = { ...crm.pageParams({ after: item.id - 1, changedSince: timeOf(item) + later }), select: ['id'] };
	return { method: 'crm.item.list', params: Object.fromEntries(flatten(params, '')) };
}

/** Maps and lists as a query has them: `filter[>id]`, `select[0]`. */
function flatten(value: unknown, name: string): [string, string | number][] {
	if (value === undefined) return [];
	if (typeof value === 'string' || typeof value === 'number') return [[name, value]];
	return Object.entries(value as object).flatMap(([key, each]) => flatten(each, name === '' ? key : `${name}[${key}]`));
}
