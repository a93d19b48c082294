// Shows /openapi.json with Scalar (https://github.com/scalar/scalar). It stores nothing: what a visitor types does not outlive
// the page. Options that would store a choice, such as the language of the samples, are left at their defaults.
const response = await fetch('/openapi.json');
// The samples of the guide call the address that served this page.
const text = (await response.text()).replaceAll(/http:\/\/127\.0\.0\.1:300[01]/g, location.origin);

Scalar.createApiReference('#reference', {
	content: JSON.parse(text),
	slug: 'api',
	// A link within the guide, such as #errors, works here as it does in its Markdown.
	generateHeadingSlug: ({ slug }) => `api/${slug}`,
	defaultOpenAllTags: true,
	// The browser's cache would keep the response under its URL, which contains the key.
	customFetch: (request, options) =>
		fetch(request, { ...options, cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer' }),
	persistAuth: false,
	telemetry: false,
	withDefaultFonts: false,
	agent: { disabled: true },
	mcp: { disabled: true },
	hideClientButton: true,
	showDeveloperTools: 'never',
});
