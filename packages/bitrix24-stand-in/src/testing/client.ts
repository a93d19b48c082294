import { onTestFinished } from 'vitest';
import { type StandIn, type StandInOptions, startStandIn } from '../stand-in.js';

/** 2026-08-20T09:10:29+03:00. */
export const noon = Date.UTC(2026, 7, 20, 6, 10, 29);

/** A clock that stands still until a test moves it. */
export class Clock {
	now: number;

	constructor(now = noon) {
		this.now = now;
	}

	read = (): number => this.now;

	passSeconds(seconds: number): void {
		this.now += seconds * 1000;
	}
}

/** A stand-in for the length of a test; its clock stands still and its rate is unlimited, unless the options say otherwise. */
export async function portal(options: StandInOptions = {}): Promise<StandIn> {
	const standIn = await startStandIn({ plan: 'unlimited', clock: () => noon, ...options });
	onTestFinished(() => standIn.close());
	return standIn;
}

export interface Reply {
	status: number;
	// biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects
	body: any;
	headers: Headers;
}

/** Calls a method with JSON. */
export async function call(standIn: StandIn, method: string, params: unknown = {}): Promise<Reply> {
	return reply(
		await fetch(standIn.webhookUrl + method, {
			method: 'POST',
			headers: { 'content-type': 'application/json' },
			body: JSON.stringify(params),
			redirect: 'manual',
		}),
	);
}

/** Reads an answer that is JSON. */
export async function reply(response: Response): Promise<Reply> {
	return { status: response.status, body: await response.json(), headers: response.headers };
}

/** crm.item.list of contacts. */
export function itemList(standIn: StandIn, params: object = {}): Promise<Reply> {
	return call(standIn, 'crm.item.list', { entityTypeId: 3, ...params });
}

/** The ids of a list's rows. */
export function ids({ body }: Reply): unknown[] {
	const rows = body.result.items ?? body.result;
	return rows.map((row: { id?: number; ID?: string }) => row.id ?? row.ID);
}

/** Contacts 1 to this number. */
export function addMany(standIn: StandIn, count: number): void {
	for (let id = 1; id <= count; id++) standIn.add({ id, name: `Name ${id}` });
}

/** 1 to this number. */
export function upTo(last: number, first = 1): number[] {
	return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
