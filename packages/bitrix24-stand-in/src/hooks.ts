import type { Params } from './php-values.js';

/** A request over HTTP, before it is handled. */
export interface RequestInfo {
	/** Its place among all requests to this stand-in, from 1; those that the rate limit refused count too. */
	number: number;
	method: string;
	params: Params & { filter?: Params };
}

/** A page of a list, after its ids are chosen and before its rows are read. */
export interface PageInfo {
	/** Its place among all pages, from 1. */
	number: number;
	method: string;
	params: Params;
	ids: readonly number[];
}

export type Hook<Info> = (info: Info) => void | Promise<void>;

/** Functions of a test that are called at one moment, in the order in which they were added. */
export class Hooks<Info> {
	readonly #hooks = new Set<Hook<Info>>();

	/** @returns a function that removes the hook */
	add(hook: Hook<Info>): () => void {
		this.#hooks.add(hook);
		return () => this.#hooks.delete(hook);
	}

	async run(info: Info): Promise<void> {
		for (const hook of [...this.#hooks]) await hook(info);
	}
}
