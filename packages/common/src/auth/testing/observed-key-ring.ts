import { timeUntil } from '@contacts/testing/machine-delays.js';
import { database as db } from '@contacts/testing/test.js';
import { onTestFinished } from 'vitest';
import { openDatabase } from '../../database/database.js';
import { startDeadline } from '../../database/deadline.js';
import { classify, DatabaseError } from '../../database/errors.js';
import { openStatePoll, type StatePoll, type StatePollOptions } from '../../database/state-poll.js';
import { type KeyRing, type KeyRingOptions, openKeyRing } from '../key-ring.js';

let nextRing = 1;

/** As in production. */
const isTemporary = (error: unknown) => error instanceof DatabaseError && !classify(error).isPermanent;
/** Longer than any test, so that polls are started by the test alone. */
export const never = 600_000;

interface Observed {
	ring: KeyRing;
	poll: StatePoll;
	/** Starts a poll, and waits for it. */
	refresh(): Promise<unknown>;
	/** Of the database's sessions. */
	applicationName: string;
	/** How often the poll has responded, and how often the keys were read. */
	polls: number;
	loads: number;
	/** Called between a poll and what the ring reads after it. */
	between: (() => Promise<unknown>) | undefined;
}

/** A key ring on a real database, with a hook between the two. */
export async function open(options: Pick<KeyRingOptions, 'now'> & Partial<StatePollOptions> = {}): Promise<Observed> {
	const { url = db.url, now, ...rest } = options;
	const applicationName = `ring ${nextRing++}`;
	const database = openDatabase({ url, applicationName, poolSize: 1 });
	const poll = openStatePoll({ url, applicationName, watched: ['keys'], ...rest });
	onTestFinished(() => Promise.all([poll.close(), database.close()]).then(() => undefined));
	const watch = { applicationName, poll, polls: 0, loads: 0, between: undefined } as unknown as Observed;
	watch.refresh = () => poll.refresh(startDeadline(20_000));
	const observed: StatePoll = {
		...poll,
		get confirmed() {
			return poll.confirmed;
		},
		follow: (follower) =>
			poll.follow(async (state, sql) => {
				watch.polls++;
				await watch.between?.();
				const counted = new Proxy(sql, {
					apply(target, _, statement) {
						watch.loads++;
						return Reflect.apply(target, undefined, statement);
					},
				});
				await follower(state, counted);
			}),
	};
	const ring = await openKeyRing(
		{ poll: observed, database, service: 'company-contacts', ...(now ? { now } : {}) },
		isTemporary,
	);
	onTestFinished(() => ring.stop());
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
