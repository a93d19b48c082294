import type { TestApp, TestAppOptions } from './app.js';

/** An endpoint that the shared tests of both services are run for. */
export interface Endpoint {
	method: 'GET' | 'POST';
	path: string;
	body?: string;
	/** Names of its query parameters beside the credentials. */
	parameters?: string[];
	/** The table that a response is made of, where its name is not that of the service. */
	table?: string;
	/** Another query, with a response that is made of the table and not of what is in memory. */
	fromTable?: string;
}

/** What the parts of the tests that both services share work with. */
export interface Contract {
	app(): TestApp;
	endpoint: Endpoint;
	/** Sends the endpoint's usual request with this query. */
	request(query: string, init?: RequestInit, on?: TestApp): Promise<Response>;
	/** Starts another app, for the time of the work. */
	withApp(options: TestAppOptions, work: (app: TestApp) => Promise<void>): Promise<void>;
	/** Credentials that are valid. */
	good: string;
}
