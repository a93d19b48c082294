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
