import { setTimeout as delay } from 'node:timers/promises';
import { addProject, revokeKeysOf } from '@contacts/testing/app.js';
import { type Breach, createCaller, type Judge, repeat, type Seen } from './judge.js';

/** Within so many milliseconds a key is accepted or refused in every process. */
const limitMs = 1000;
/** For how long each is asked after a change. */
const watchedMs = 2000;

/** Makes keys and revokes them all the time, and uses each in every replica. */
export const revoked: Judge = {
	name: 'revoked',
	promise: 3,
	start(place, random) {
		const seen: Seen[] = [];
		const judged: number[] = [];
		const breaches: Breach[] = [];
		const caller = createCaller(place, random, seen);
		let [rounds, key] = [0, ''];

		/** Each replica has chats of its own: one chat has one request at a time (docs/bot.md). */
		const chatOf = (address: string) => -1000 - rounds * place.personal.length - place.personal.indexOf(address);
		async function use(address: string) {
			const query = `project=${key}&api_key=${key}-key`;
			return place.company.includes(address)
				? caller.call(`${address}/api/company_contacts.list?company_id=1&${query}`)
				: caller.call(`${address}/api/personal_contacts?${query}`, { chat_id: chatOf(address) });
		}
		/** Uses the key everywhere until the change must be in force, and a while longer. */
		async function watch(changed: number, wrong: (outcome: unknown) => boolean, what: string) {
			const everywhere = [...place.personal, ...place.company].map(async (address) => {
				while (performance.now() < changed + watchedMs) {
					const { begun, ended, outcome } = await use(address);
					if (begun > changed + limitMs) {
						judged.push(ended);
						// From the change on: the machine may have delayed the poll that would have seen it.
						if (wrong(outcome))
							breaches.push({ what: `${key} was ${what} by ${address}`, begun: changed, ended: begun, limitMs });
					}
					await delay(100);
				}
			});
			await Promise.all(everywhere);
		}
		const loop = repeat(async () => {
			await place.asOwner((sql) => {
				key = `round-${++rounds}`;
				return addProject(sql, key, `${key}-key`);
			});
			await watch(performance.now(), (outcome) => outcome === 401, 'still refused a second after it was made');
			await place.asOwner((sql) => revokeKeysOf(sql, key));
			await watch(performance.now(), (outcome) => outcome === 200, 'still accepted a second after it was revoked');
		}, 10);
		return {
			judged,
			seen,
			breaches,
			async stop() {
				await loop.stop();
				caller.close();
			},
		};
	},
};
