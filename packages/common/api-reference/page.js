// The API reference: Swagger UI with a form for the credentials in place of its dialog. What is typed there stays in the
// memory of this page alone: no address, link, storage or text of the page ever holds a key.

/** A request as it is shown, as a URL and as a curl line: with a placeholder instead of the key. */
const withoutKey = (request) =>
	request?.update('url', (url) => url?.replace(/([?&]api_key=)[^&#]*/g, '$1YOUR_KEY')) ?? request;

const masked =
	(original) =>
	(_state, ...parameters) =>
		withoutKey(original(...parameters));

/** Elements of a list that are shown: a browser would freeze for minutes over ten thousand. */
const maxShownElements = 50;

/** The beginning of a long list as text, with the count of the whole list; undefined for anything else. */
function beginningOf({ content: text, contentType }) {
	if (typeof text !== 'string' || text.length < 50_000 || !contentType?.startsWith('application/json'))
		return undefined;
	const body = JSON.parse(text);
	const name = ['data', 'changes'].find((each) => Array.isArray(body[each]));
	if (name === undefined || body[name].length <= maxShownElements) return undefined;
	return {
		count: body[name].length,
		content: JSON.stringify({ ...body, [name]: body[name].slice(0, maxShownElements) }),
	};
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
				'They are sent with the requests that you make below, to this service alone. Closing or reloading the page deletes them.',
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
					h('p', null, `The response had all ${beginning.count} elements; here are the first ${maxShownElements}.`),
					h(Original, { ...props, content: beginning.content }),
				);
			},
			headers: (Original) => (props) =>
				h('details', { className: 'headers' }, h('summary', null, 'Headers of this response'), h(Original, props)),
			// A dozen errors would hide what a request returns.
			responses: (Original) => (props) => {
				const isError = (_response, status) => Number(status) >= 400;
				const errors = props.responses.filter(isError);
				return h(
					React.Fragment,
					null,
					h(Original, { ...props, responses: props.responses.filterNot(isError) }),
					h(
						'details',
						{ className: 'errors' },
						h('summary', null, `Errors: ${errors.keySeq().sort().join(', ')}`),
						h(Original, { ...props, responses: errors, tryItOutResponse: undefined }),
					),
				);
			},
			// Swagger UI says what is wrong in a tooltip, with a regular expression.
			JsonSchema_string: (Original) => (props) =>
				h(
					React.Fragment,
					null,
					h(Original, props),
					props.errors?.size > 0 &&
						h(
							'p',
							{ className: 'invalid-field', role: 'alert' },
							props.schema.get('x-allowed') ?? props.errors.join(', '),
						),
				),
		},
		statePlugins: {
			spec: {
				wrapSelectors: { requestFor: masked, mutatedRequestFor: masked },
				wrapActions: {
					// The first step of every request. Without this, the response to the last one stays beside a field that is wrong.
					clearValidateParams: (original, system) => (operation) => {
						system.specActions.clearResponse(...operation);
						return original(operation);
					},
				},
			},
		},
	};
}

/** The OpenAPI document with the address of this page in its samples. */
async function readDocument() {
	const response = await fetch('/openapi.json', { credentials: 'omit' });
	return JSON.parse((await response.text()).replaceAll('https://HOST', location.origin));
}

const dark = matchMedia('(prefers-color-scheme: dark)');
const setTheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', setTheme);
setTheme();

const ui = window.SwaggerUIBundle({
	spec: await readDocument(),
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
		// The browser's cache would keep the response under its URL, which holds the key.
		Object.assign(request, { cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer' }),
});
