import { setTimeout as delay } from 'node:timers/promises';
import { type Breach, createCaller, type Judge, repeat, type Seen, waitAsTheGuideSays } from './judge.js';

const chats = 4;

/** Reports that chats subscribe and leave. An upsert that is sent after the response must see it, in both replicas. */
export const skipped: Judge = {
	name: 'skipped',
	promise: 2,
	start(place, random) {
		const seen: Seen[] = [];
		const judged: number[] = [];
		const breaches: Breach[] = [];
		const caller = createCaller(place, random, seen);
		let isStopped = false;
		/** By chat, to find the cause of a breach. */
		const history = Array.from({ length: chats }, (): string[] => []);
		const post = (path: string, body: object) =>
			caller.call(`${place.personal[random.integer(0, 1)]}/api/${path}?project=bot&api_key=bot-key`, body);

		/** Reports it until that is acknowledged. @returns what counts: the opposite if a report was given up on the way */
		async function report(chat: number, active: boolean): Promise<boolean | undefined> {
			for (let isActive = active; !isStopped; ) {
				const reply = await post('direct_subscriptions', { chat_id: chat, active: isActive });
				const { outcome, begun, ended } = reply;
				history[-1 - chat]?.push(`${isActive} ${outcome} ${Math.round(begun)}-${Math.round(ended)}`);
				if (reply.outcome === 200) return isActive;
				await waitAsTheGuideSays(reply);
				if (reply.outcome !== 500 && reply.outcome !== 503) isActive = !isActive;
			}
			return undefined;
		}
		async function check(chat: number, isActive: boolean): Promise<void> {
			const reply = await post('personal_contacts', { chat_id: chat, name: 'any' });
			if (reply.outcome !== 200) return waitAsTheGuideSays(reply);
			judged.push(reply.ended);
			const { ok } = JSON.parse(reply.body) as { ok: string };
			if ((ok === 'skipped') === isActive) return;
			const { begun, ended } = reply;
			breaches.push({
				what: `chat ${chat}: ${ok} after "active": ${isActive} was acknowledged, after ${history[-1 - chat]?.slice(-5).join('; ')}`,
				begun,
				ended,
			});
		}
		const loops = Array.from({ length: chats }, (_, index) => {
			const chat = -1 - index;
			let isActive = false;
			return repeat(async () => {
				const reported = await report(chat, !isActive);
				if (reported === undefined) return;
				const wasGivenUp = reported === isActive;
				isActive = reported;
				// A report that was given up may come late.
				for (let times = wasGivenUp ? 10 : 2; times > 0 && !isStopped; times--) {
					await check(chat, isActive);
					await delay(100);
				}
			}, 50);
		});
		return {
			judged,
			seen,
			breaches,
			async stop() {
				isStopped = true;
				await Promise.all(loops.map((loop) => loop.stop()));
				caller.close();
			},
		};
	},
};
