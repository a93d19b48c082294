import { ContactsError, createPersonalContactsClient } from '@contacts/client';
import {
	type Breach,
	createCaller,
	type Judge,
	type Outcome,
	repeat,
	type Seen,
	settleMs,
	waitAsTheGuideSays,
} from './judge.js';

/** The stored form of a chat's version: two columns, which must always come from the same request. */
const columnsOf = (version: number) => ({ username: `u${version}`, name: `v${version}` });

/** Clients of each kind, how many chats each of them uses at a time, and about how often it writes each. */
const clientsOfEachKind = 4;
const chatsEach = 4;
const writesEach = 4;

/**
 * One request at a time for each chat, through both replicas. After a request that was given up, the chat gets newer values once
 * more. What comes late stays visible, because each chat is left after a few writes.
 */
export const saved: Judge = {
	name: 'saved',
	promise: 1,
	start(place, random) {
		const seen: Seen[] = [];
		const judged: number[] = [];
		const breaches: Breach[] = [];
		const caller = createCaller(place, random, seen);
		const stopping = new AbortController();
		/** By chat: the last version that was sent, and the last one that was acknowledged, with the moment. */
		const sent = new Map<number, number>();
		const stored = new Map<number, { version: number; at: number }>();
		let nextChat = 1;

		/** Sends it by hand. @returns whether it was saved; undefined: its outcome is open */
		async function byHand(replica: number, contact: { chat_id: number }): Promise<boolean | undefined> {
			const reply = await caller.call(
				`${place.personal[replica]}/api/personal_contacts?project=bot&api_key=bot-key`,
				contact,
			);
			if (reply.outcome === 200) return true;
			await waitAsTheGuideSays(reply);
			return reply.outcome === 500 || reply.outcome === 503 ? false : undefined;
		}
		const typed = place.personal.map((baseUrl) =>
			createPersonalContactsClient({ baseUrl, project: 'bot', apiKey: 'bot-key' }),
		);
		async function byClient(replica: number, contact: { chat_id: number }): Promise<boolean | undefined> {
			const begun = performance.now();
			const record = (outcome: Outcome) => void seen.push({ begun, ended: performance.now(), outcome });
			try {
				await typed[replica]?.upsert(contact, { signal: stopping.signal });
				record(200);
				return true;
			} catch (error) {
				if (stopping.signal.aborted) return undefined;
				const isOwn = error instanceof ContactsError && error.code !== 'unexpected_response';
				record(isOwn ? error.status : error instanceof ContactsError ? 'foreign' : 'broken');
				if (!isOwn) await new Promise((resolve) => setTimeout(resolve, settleMs));
				return isOwn ? false : undefined;
			}
		}

		async function save(send: typeof byHand, replica: number, chat: number): Promise<boolean | undefined> {
			const version = (sent.get(chat) ?? 0) + 1;
			sent.set(chat, version);
			const isSaved = await send(replica, { chat_id: chat, ...columnsOf(version) });
			if (isSaved) {
				const at = performance.now();
				stored.set(chat, { version, at });
				judged.push(at);
			}
			return isSaved;
		}
		const loops = (place.losesNetwork ? [byHand] : [byHand, byClient]).flatMap((send) =>
			Array.from({ length: clientsOfEachKind }, () => {
				const chats = Array.from({ length: chatsEach }, () => nextChat++);
				return repeat(async () => {
					const index = random.integer(0, chatsEach - 1);
					const chat = chats[index] as number;
					let replica = random.integer(0, 1);
					const isSaved = await save(send, replica, chat);
					if (isSaved === false || (isSaved && random.integer(1, writesEach) > 1)) return;
					// After a request that was given up, the newer values, elsewhere.
					if (isSaved === undefined) {
						do replica = 1 - replica;
						while (!stopping.signal.aborted && !(await save(send, replica, chat)));
					}
					chats[index] = nextChat++;
				}, 50);
			}),
		);
		return {
			judged,
			seen,
			breaches,
			async stop() {
				const ending = loops.map((loop) => loop.stop());
				stopping.abort();
				await Promise.all(ending);
				caller.close();
				const rows = await place.asOwner(
					(sql) => sql<{ chat: number; username: string; name: string }[]>`
						select chat_id::float8 as chat, username, name from personal_contacts where name like 'v%'`,
				);
				const found = new Map(rows.map((row) => [row.chat, row]));
				for (const [chat, { version, at }] of stored) {
					const breach = (what: string) => void breaches.push({ what, begun: at, ended: at });
					const row = found.get(chat);
					const is = row === undefined ? 0 : Number(row.name.slice(1));
					if (is < version) breach(`chat ${chat}: version ${version} was acknowledged, and ${is} is stored`);
					if (is > (sent.get(chat) ?? 0)) breach(`chat ${chat}: version ${is} is stored, which nobody has sent`);
					if (row !== undefined && columnsOf(is).username !== row.username)
						breach(`chat ${chat}: ${row.username} with ${row.name}`);
				}
			},
		};
	},
};
