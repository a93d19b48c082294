import { plain, type ReferenceInfo } from '@contacts/common/api-reference/document.js';
import { CompanyContactListSchema, CompanyContactSchema, limitHeaders } from './list-company-contacts.reference.js';
import type { BucketPolicy } from './rate-limit/token-bucket.js';

const description = ({ burst, perSecond }: BucketPolicy) => `
The contacts of companies, mirrored from the CRM, for partners' integrations. You need two things, which the operator gives you:
the **code of your project** and an **API key**.

### First call

Type both below, press **Execute**, and you have the list. The same from a shell:

\`\`\`sh
curl 'https://HOST/api/company_contacts.list?company_id=11&project=PROJECT&api_key=KEY'
\`\`\`

### Credentials

The query parameters \`project\` and \`api_key\`, each exactly once. No header, token, cookie or session counts. Whatever is wrong with
them, the answer is the same **401**: look for a typing error, a key of another project, or ask the operator whether the key has
expired or was revoked. A key is shown once, when it is made, and a revocation takes effect within a second. Because the key is a
part of the URL, keep URLs out of logs, bug reports and chats, and percent-encode the key when you build one.

### Limit

Each project has a token bucket: ${burst} tokens, refilled at ${perSecond} a second. So ${burst} requests pass at once, and then
${perSecond} every second, evenly; nothing is granted in windows. Beyond it the answer is **429** with \`Retry-After\` in whole seconds; a refused request takes no token.
Every answer that reached the limit says in its headers what is left. Failed authentications are limited at the same rate for each
client address; they never take from a project's bucket.

### Polling

Keep the \`ETag\` of an answer with the list and send it as \`If-None-Match\` the next time: an unchanged list costs an empty **304**.
\`Last-Modified\` is when the list was last found equal to the CRM, not when it last changed.

### Errors

Every error is an \`application/problem+json\` ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)) of one shape. Decide on its \`code\`,
and quote its \`request_id\` when you ask for help.

| status | code | what to do |
|---|---|---|
| 400 | \`invalid_query\` | correct the parameter that \`errors\` names, or the URL |
| 401 | \`unauthorized\` | check project and key |
| 404, 405 | \`not_found\`, \`method_not_allowed\` | check path and method |
| 408, 413, 431 | \`invalid_query\`, \`payload_too_large\` | send a smaller request, or send it faster |
| 429 | \`rate_limited\` | wait for \`Retry-After\` |
| 500 | \`database_error\` | wait for \`Retry-After\`, repeat |
| 500 | \`internal_error\` | repeat later; tell the operator if it stays |
| 503 | \`overloaded\` | wait for \`Retry-After\`, repeat |

They are decided in this order: 405, 401, 429, 400, then the answer or 500. Repeating a request is always safe.
`;

/** What the API reference of this service says beside its operation, with the limit that it runs with. */
export const reference = (policy: BucketPolicy): ReferenceInfo => ({
	title: 'Company contacts',
	summary: 'The contacts of companies, mirrored from the CRM',
	description: description(policy).trim(),
	schemas: { CompanyContact: plain(CompanyContactSchema), CompanyContactList: plain(CompanyContactListSchema) },
	headers: limitHeaders,
});
