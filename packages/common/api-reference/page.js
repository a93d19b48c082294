// The reference page: Swagger UI with a form for the credentials in place of its dialog. What is typed there lives in the
// memory of this page alone: no address, no link, no storage and no text of the page ever holds a key.

/** A request as it is shown, in its address and as a curl line: with a word to replace where the key was. */
const withoutKey = (request) =>
	request?.update('url', (url) => url?.replace(/([?&]api_key=)[^&#]*/g, '$1YOUR_KEY')) ?? request;

const shown =
	(original) =>
	(_state, ...given) =>
		withoutKey(original(...given));

/** The most elements of a list that are shown: the browser would stand still for minutes over ten thousand. */
const mostShown = 50;

/** The beginning of a long list, as text, with how many it had; undefined for whatever else. */
function beginningOf({ content: text, contentType }) {
	if (typeof text !== 'string' || text.length < 50_000 || !contentType?.startsWith('application/json'))
		return undefined;
	const { count, data, ...rest } = JSON.parse(text);
	if (!Array.isArray(data) || data.length <= mostShown) return undefined;
	return { count, content: JSON.stringify({ count, data: data.slice(0, mostShown), ...rest }) };
}

const nothing = () => () => null;

function referencePlugin({ React }) {
	const h = React.createElement;

	function field(system, name, label, type, hint) {
		return h(
			'label',
			{ className: 'credential', key: name },
			h('span', null, label),
			h('input', {
				id: `credential-${name}`,
				type,
				placeholder: hint,
				autoComplete: 'off',
				autoCapitalize: 'off',
				spellCheck: false,
				onChange: ({ target: { value } }) =>
					value === '' ? system.authActions.logout([name]) : ui.preauthorizeApiKey(name, value),
			}),
		);
	}

	const credentials = (_original, system) => () =>
		h(
			'section',
			{ className: 'credentials', id: 'try' },
			h('h2', null, 'Try it with your credentials'),
			h(
				'p',
				null,
				'They are sent with the requests that you make below, to this service alone, and forgotten when the page is closed or loaded again.',
			),
			h(
				'div',
				{ className: 'credential-fields' },
				field(system, 'project', 'Project code', 'text', 'project'),
				field(system, 'api_key', 'API key', 'password', 'api_key'),
			),
		);

	return {
		wrapComponents: {
			AuthorizeBtnContainer: credentials,
			authorizeOperationBtn: nothing,
			ServersContainer: nothing,
			responseBody: (Original) => (props) => {
				const beginning = beginningOf(props);
				if (beginning === undefined) return h(Original, props);
				return h(
					React.Fragment,
					null,
					h('p', null, `The answer had all ${beginning.count} elements; here are the first ${mostShown}.`),
					h(Original, { ...props, content: beginning.content }),
				);
			},
			// A dozen headers for each of a dozen statuses: there for who looks for them.
			headers: (Original) => (props) =>
				h('details', { className: 'headers' }, h('summary', null, 'Headers of this answer'), h(Original, props)),
		},
		statePlugins: {
			spec: {
				wrapSelectors: { requestFor: shown, mutatedRequestFor: shown },
			},
		},
	};
}

const ui = window.SwaggerUIBundle({
	url: '/openapi.json',
	domNode: document.getElementById('reference'),
	plugins: [referencePlugin],
	layout: 'BaseLayout',
	deepLinking: false,
	docExpansion: 'full',
	defaultModelsExpandDepth: 1,
	defaultModelRendering: 'example',
	displayRequestDuration: true,
	persistAuthorization: false,
	tryItOutEnabled: true,
	validatorUrl: null,
	requestInterceptor: (request) =>
		// The browser's cache would keep the answer under its address, which holds the key.
		Object.assign(request, { cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer' }),
});
