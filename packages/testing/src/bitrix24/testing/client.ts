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

export type Row = Record<string, unknown>;

/** What `batch` responds, by the names of the commands. PHP writes an empty map as []. */
export interface BatchResult {
	result: Record<string, Row>;
	result_error: Record<string, { error: string; error_description: string }>;
	result_total: Record<string, number>;
	result_next: Record<string, number>;
	result_time: Record<string, ResponseTime>;
}

interface ResponseTime {
	start: number;
	finish: number;
	processing: number;
	operating: number;
	operating_reset_at?: number | null;
}

/** What a method responds; a failed call has an error in place of the result. */
export interface Body<Result> {
	result: Result;
	total?: number;
	next?: number;
	time: ResponseTime;
	error?: string;
	error_description?: string;
}

export interface Reply<Result> {
	status: number;
	body: Body<Result>;
	headers: Headers;
}

/** Calls a method with JSON. */
export async function call<Result = Row>(
	standIn: StandIn,
	method: string,
	params: unknown = {},
): Promise<Reply<Result>> {
	return reply(
		await fetch(standIn.webhookUrl + method, {
			method: 'POST',
			headers: { 'content-type': 'application/json' },
			body: JSON.stringify(params),
			redirect: 'manual',
		}),
	);
}

/** Reads a response that is JSON. */
export async function reply<Result = Row>(response: Response): Promise<Reply<Result>> {
	return { status: response.status, body: (await response.json()) as Body<Result>, headers: response.headers };
}

/** crm.item.list of contacts. */
export function itemList(standIn: StandIn, params: object = {}): Promise<Reply<{ items: Row[] }>> {
	return call(standIn, 'crm.item.list', { entityTypeId: 3, ...params });
}

/** The ids of a list's rows. */
export function ids({ body: { result } }: Reply<Row[] | { items: Row[] }>): unknown[] {
	return ('items' in result ? result.items : result).map((row) => row.id ?? row.ID);
}

/** Contacts 1 to this number. */
export function addMany(standIn: StandIn, count: number): void {
	for (let id = 1; id <= count; id++) standIn.add({ id, name: `Name ${id}` });
}

/** 1 to this number. */
export function upTo(last: number, first = 1): number[] {
	return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
