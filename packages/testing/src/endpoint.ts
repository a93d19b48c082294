import type { TestApp, TestAppOptions } from './app.js';

/** An endpoint for the tests that both services share. */
export interface Endpoint {
	method: 'GET' | 'POST';
	path: string;
	body?: string;
	/** Names of its query parameters, except for the credentials. */
	parameters?: string[];
	/** The table that a response reads, if its name is not that of the service. */
	table?: string;
	/** Another query, whose response reads the table instead of memory. */
	fromTable?: string;
}

/** What the tests of both services share. */
export interface Contract {
	app(): TestApp;
	endpoints: readonly Endpoint[];
	/** Sends an endpoint's request with this query. */
	request(endpoint: Endpoint, query: string, init?: RequestInit, on?: TestApp): Promise<Response>;
	/** Starts another app for the duration of `work`. */
	withApp(options: TestAppOptions, work: (app: TestApp) => Promise<void>): Promise<void>;
}
