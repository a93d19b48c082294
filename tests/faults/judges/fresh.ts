import { setTimeout as delay } from 'node:timers/promises';
import { type Breach, createCaller, type Judge, type Reply, repeat, type Seen } from './judge.js';

const limitMs = 1000;
/** A contact that the CRM does not have. A full run deletes it; then the next write adds it again. */
const marker = 8_000_000_000;

/** Changes a contact all the time, and reads it through the gateway from lists and from the feed. */
export const fresh: Judge = {
	name: 'fresh',
	promise: 5,
	async start(place, random) {
		const seen: Seen[] = [];
		const judged: number[] = [];
		const breaches: Breach[] = [];
		const caller = createCaller(place, random, seen);
		/** When each version was committed. */
		const committed: number[] = [];
		const write = () =>
			place.asOwner(async (sql) => {
				await sql`
					insert into company_contacts (bitrix_id, company_ids, name) values (${marker}::float8::bigint, '{900}', ${`m${committed.length}`})
					on conflict (bitrix_id) do update set name = excluded.name
					where substr(company_contacts.name, 2)::int < substr(excluded.name, 2)::int`;
				committed.push(performance.now());
			});
		await write();

		function judge(what: string, { begun, ended, outcome }: Reply, version: number): void {
			if (outcome !== 200) return;
			judged.push(ended);
			const oldest = committed.findLastIndex((at) => at < begun - limitMs);
			if (version >= oldest) return;
			const at = committed[version + 1] as number;
			breaches.push({
				what: `${what} was sent without a change that was committed ${begun - at} ms before its request`,
				begun: at,
				ended: begun,
				limitMs,
			});
		}
		const get = (path: string) =>
			caller.call(`${place.gateway}/api/company_contacts.${path}&project=fresh&api_key=fresh-key`);
		let cursor = '';
		let inFeed = 0;
		const loops = [
			repeat(write, 100),
			repeat(async () => {
				const reply = await get('list?company_id=900');
				const version = /"name":"m(\d+)"/.exec(reply.body)?.[1];
				if (version !== undefined) judge('a list', reply, Number(version));
				await delay(200);
			}, 200),
			repeat(async () => {
				const reply = await get(`changes?${cursor && `cursor=${cursor}`}`);
				if (reply.outcome === 410) cursor = '';
				if (reply.outcome !== 200) return;
				const page = JSON.parse(reply.body) as {
					changes: { contact: { bitrix_id: number; name?: string } }[];
					cursor: string;
					has_more: boolean;
				};
				cursor = encodeURIComponent(page.cursor);
				const name = page.changes.find(({ contact }) => contact.bitrix_id === marker && contact.name)?.contact.name;
				if (name !== undefined) inFeed = Number(name.slice(1));
				if (!page.has_more) judge('a page of the feed', reply, inFeed);
			}, 400),
		];
		return {
			judged,
			seen,
			breaches,
			async stop() {
				await Promise.all(loops.map((loop) => loop.stop()));
				caller.close();
			},
		};
	},
};
