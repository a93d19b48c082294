const none: readonly string[] = [];

/**
 * The names of the parameters in a URL whose percent-encoding is malformed, in their name or their value. The router's parser
 * passes such a parameter on as it was written, so that it would be taken for another text.
 */
export function malformedParameters(url: string): readonly string[] {
	if (!url.includes('%') || isDecodable(url)) return none;
	const query = url.slice(url.search(/[?#]/) + 1);
	return query.split('&').flatMap((parameter) => {
		if (isDecodable(parameter)) return [];
		const [name = ''] = parameter.split('=', 1);
		return [isDecodable(name) ? decodeURIComponent(name) : name];
	});
}

function isDecodable(text: string): boolean {
	try {
		decodeURIComponent(text);
		return true;
	} catch {
		return false;
	}
}
