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
