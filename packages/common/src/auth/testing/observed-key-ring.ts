import { timeUntil } from '@contacts/testing/machine-delays.js';
import { database as db } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import type { ChangeSubscription } from '../../database/change-listener.js';
import { type Database, openDatabase } from '../../database/database.js';
import { DatabaseError, isRefusal } from '../../database/errors.js';
import { type KeyRing, type KeyRingOptions, openKeyRing } from '../key-ring.js';

let nextRing = 1;

/** As in production. */
const isTemporary = (error: unknown) => error instanceof DatabaseError && !isRefusal(error.cause);
/** Longer than any test, so only notifications cause a refresh. */
export const never = 600_000;

interface Observed {
	ring: KeyRing;
	/** Of the database's sessions. */
	applicationName: string;
	/** The number of statements that the ring has sent. */
	statements: number;
	/** Called before each of them. */
	before: (() => Promise<unknown>) | undefined;
}

/** A key ring on a real database, with a hook between the two. */
export async function open(
	options: Partial<KeyRingOptions> & { url?: string; listens?: boolean } = {},
): Promise<Observed> {
	const { url = db.url, listens = true, ...rest } = options;
	const applicationName = `ring ${nextRing++}`;
	const database = openDatabase({ url, applicationName, poolSize: 1 });
	onTestFinished(() => database.close());
	const watch = { applicationName, statements: 0, before: undefined } as Omit<Observed, 'ring'>;
	let changes: ChangeSubscription | undefined;
	const observed: Database = {
		...database,
		async queryReserved(statement) {
			watch.statements++;
			await watch.before?.();
			return database.queryReserved(statement);
		},
		listenForChanges(channel, onChange) {
			if (!listens) return { current: false, stop: () => undefined };
			changes = database.listenForChanges(channel, onChange);
			return changes;
		},
	};
	const ring = await openKeyRing({ database: observed, service: 'company-contacts', ...rest }, isTemporary);
	onTestFinished(() => ring.stop());
	if (listens) {
		await expect.poll(() => changes?.current, { interval: 10 }).toBe(true);
		// Loading has finished. From here on only a notification causes another refresh.
		await ring.refresh();
	}
	return Object.assign(watch, { ring });
}

export const idOf = async (project: string) => {
	const [row] = await db.sql<{ id: number }[]>`
		select k.id::float8 as id from api_keys k join projects p on p.id = k.project_id where p.code = ${project}`;
	return row?.id ?? Number.NaN;
};

/** How many milliseconds it takes until the ring reports this, without delays of the machine. */
export const seen = (ring: KeyRing, project: string, live: boolean): Promise<number> =>
	timeUntil(
		() => (ring.find(project, `${project}-key`) !== undefined) === live,
		() => db.sql`select 1`,
	);
