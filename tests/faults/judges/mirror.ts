import { waitUntil } from '@contacts/testing/wait-until.js';
import { type Breach, createCaller, type Judge, repeat, type Seen } from './judge.js';

/** How long the mirror may take at rest: until the server has ended a session that has vanished, and for a run. */
const limitMs = 60_000;

/**
 * Changes contacts in the CRM. Those that nobody touches are always listed, each contact as it was at some time, and at rest the table
 * equals the CRM.
 */
export const mirror: Judge = {
	name: 'mirror',
	promise: 7,
	start(place, random) {
		const seen: Seen[] = [];
		const judged: number[] = [];
		const breaches: Breach[] = [];
		const caller = createCaller(place, random, seen);
		const untouched = [...place.crm.contacts.keys()];
		const added: number[] = [];
		/** Every state that a contact has ever had. */
		const states = new Set<string>();
		const note = ({ id, lastName }: { id: number; lastName?: string | null }) => void states.add(`${id} ${lastName}`);
		for (const contact of place.crm.contacts.values()) note(contact);
		let changes = 0;
		const loops = [
			repeat(async () => {
				const lastName = `Changed ${++changes}`;
				const id = added[random.integer(0, added.length - 1)];
				if (changes % 3 === 0 || id === undefined) {
					const contact = place.crm.add({ lastName });
					added.push(contact.id);
					note(contact);
				} else {
					note({ id, lastName });
					place.crm.update(id, { lastName });
				}
			}, 500),
			repeat(async () => {
				const reply = await caller.call(`${place.gateway}/api/company_contacts.list?project=mirror&api_key=mirror-key`);
				if (reply.outcome !== 200) return;
				judged.push(reply.ended);
				const { data } = JSON.parse(reply.body) as { data: { bitrix_id: number; name: string }[] };
				const listed = new Set(data.map(({ bitrix_id }) => bitrix_id));
				const gone = untouched.filter((id) => !listed.has(id));
				const { begun, ended } = reply;
				for (const { bitrix_id, name } of data)
					if (bitrix_id < 8_000_000_000 && !states.has(`${bitrix_id} ${name}`))
						breaches.push({ what: `a list has contact ${bitrix_id} with ${name}, as it never was`, begun, ended });
				if (gone.length > 0) breaches.push({ what: `a list lacks contacts ${gone} of the CRM`, begun, ended });
			}, 300),
		];
		const inTable = () =>
			place.asOwner(
				(sql) => sql<{ id: number; name: string }[]>`
				select bitrix_id::float8 as id, name from company_contacts where bitrix_id < 8000000000 order by bitrix_id`,
			);
		const inCrm = () =>
			[...place.crm.contacts.values()].map(({ id, lastName }) => ({ id, name: lastName })).sort((a, b) => a.id - b.id);
		return {
			judged,
			seen,
			breaches,
			async stop() {
				await Promise.all(loops.map((loop) => loop.stop()));
				caller.close();
				const isEqual = async () => JSON.stringify(await inTable()) === JSON.stringify(inCrm());
				await waitUntil(isEqual, { timeoutMs: limitMs, intervalMs: 100 }).catch(() =>
					breaches.push({ what: 'the table does not equal the CRM', begun: 0, ended: performance.now() }),
				);
			},
		};
	},
};
