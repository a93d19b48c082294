// Shows /openapi.json with Scalar (https://github.com/scalar/scalar), in place of the guide that the page has from the beginning. It
// stores nothing: what a visitor types does not outlive the page. Options that would store a choice, such as the language of the
// samples, are left at their defaults.
const guide = document.querySelector('#guide');

// The samples call the address that served this page.
const withOwnAddress = (text) => text.replaceAll(/http:\/\/127\.0\.0\.1:300[01]/g, location.origin);
const texts = document.createTreeWalker(guide, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) texts.currentNode.data = withOwnAddress(texts.currentNode.data);

/** The service refuses the script while too many clients have not read theirs. */
const retryDelaysMs = [1_000, 2_000, 4_000, 8_000, 15_000];

/** Tries until there is a result. */
async function repeat(attempt) {
	for (const delay of [...retryDelaysMs, undefined]) {
		const result = await attempt();
		if (result !== undefined) return result;
		if (delay === undefined) throw new Error('The reference could not be loaded. Its guide stays.');
		await new Promise((resolve) => setTimeout(resolve, delay));
	}
}

const loadScript = () =>
	new Promise((resolve) => {
		const script = Object.assign(document.createElement('script'), { src: '/docs/scalar.js' });
		script.onload = () => resolve(true);
		script.onerror = () => resolve(undefined);
		document.head.append(script);
	});

const documentUrl = `${location.origin}/openapi.json`;

async function loadDocument() {
	const response = await fetch(documentUrl).catch(() => undefined);
	return response?.ok ? withProject(JSON.parse(withOwnAddress(await response.text()))) : undefined;
}

/** The project is entered once, beside the key, and not for each operation. */
function withProject(document) {
	const project = { type: 'apiKey', in: 'query', name: 'project', description: 'The code of your project.' };
	document.components.securitySchemes = { project, ...document.components.securitySchemes };
	document.security = [{ project: [], api_key: [] }];
	for (const operation of Object.values(document.paths).flatMap((path) => Object.values(path)))
		operation.parameters = operation.parameters?.filter(({ name }) => name !== 'project');
	return document;
}

const [content] = await Promise.all([repeat(loadDocument), repeat(loadScript)]);

// Whoever has read on goes on with the same section.
const section = [...guide.querySelectorAll('h2')].findLast((heading) => heading.getBoundingClientRect().top < 100);
if (section && scrollY > 0) history.replaceState(null, '', `#${section.id}`);
guide.remove();

Scalar.createApiReference('#reference', {
	url: documentUrl,
	// Of the service's own document: that of this page would be imported with the project as its only credential.
	documentDownloadType: 'direct',
	slug: 'api',
	// A link within the guide, such as #errors, works here as it does in its Markdown.
	generateHeadingSlug: ({ slug }) => `api/${slug}`,
	defaultOpenAllTags: true,
	// The order of the response.
	orderSchemaPropertiesBy: 'preserve',
	orderRequiredPropertiesFirst: false,
	// The browser's cache would keep the response under its URL, which contains the key.
	customFetch: async (request, options) =>
		(request.url ?? request) === documentUrl
			? Response.json(content)
			: fetch(request, { ...options, cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer' }),
	persistAuth: false,
	telemetry: false,
	withDefaultFonts: false,
	agent: { disabled: true },
	mcp: { disabled: true },
	hideClientButton: true,
	showDeveloperTools: 'never',
});
