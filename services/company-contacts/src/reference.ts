import { plain, type ReferenceInfo } from '@contacts/common/api-reference/document.js';
import { CompanyContactChangesSchema } from './changes/list-changes.reference.js';
import { CompanyContactListSchema, CompanyContactSchema } from './list-company-contacts.reference.js';
import { limitHeaders } from './public-endpoint.reference.js';
import type { BucketPolicy } from './rate-limit/token-bucket.js';

const contact = plain(CompanyContactSchema);

/** The rows of the field table, from the schema of the response. */
const fields = Object.entries(contact.properties ?? {})
	.map(([name, schema]) => ('type' in schema ? [name, [schema.type].flat().join(' or '), schema.description] : []))
	.map(([name, type, meaning]) => `| \`${name}\` | ${type} | ${meaning} |`)
	.join('\n');

const description = ({ burst, perSecond }: BucketPolicy) => `
The business contacts of a company, mirrored from its CRM, for partners' programs. You need three things from the operator:
the **address** of the service, the **code of your project** and an **API key**. The [guide](/docs/guide) shows how to integrate, step by step.

### First call

Type both below and press **Execute**. The same from a shell:

\`\`\`sh
curl 'https://HOST/api/company_contacts.list?company_id=11&project=PROJECT&api_key=KEY'
\`\`\`

### Fields of a contact

| field | type | meaning |
|---|---|---|
${fields}

All eight fields are always present. New ones may be added.

### Credentials

Send the query parameters \`project\` and \`api_key\`, each exactly once. No header, token, cookie or session counts. Whatever is
wrong with them, the response is the same **401**. Look for a typing error or a key of another project, or ask the operator whether
the key has expired or was revoked. A key is shown once, when it is made. The key is a part of the URL: keep URLs out of logs, bug
reports and chats, and percent-encode the key.

### Polling

Keep the \`ETag\` with the list and send it as \`If-None-Match\` the next time: an unchanged list costs an empty **304**.

### Limit

Each project has a token bucket: ${burst} tokens, refilled at ${perSecond} a second. So ${burst} requests pass at once, then
${perSecond} every second. Beyond that the response is **429** with \`Retry-After\` in whole seconds. A refused request costs no
token. \`RateLimit-Remaining\` says what is left. Failed authentications are limited at the same rate for each client address; they
never cost a token of a project.

### A copy of all contacts

To keep a copy, ask \`company_contacts.changes\` for what has changed. Without a cursor it gives every contact, page by page. Ask
again with the \`cursor\` of each response until \`has_more\` is false, and store the last cursor with your copy. From then on a
response has what has changed since its cursor, deletions too. Apply it in order: put a contact into your copy by its \`id\`, or
remove it where \`deleted\` is true. Your copy is then what the list is. A cursor works for at least 30 days. After a **410** begin
again without one.

### Errors

Every error is an \`application/problem+json\` ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)). Decide on its \`code\`, and quote
its \`request_id\` when you ask for help. Repeating a request is always safe.

| status | code | what to do |
|---|---|---|
| 400 | \`invalid_query\` | correct the parameter that \`errors\` names, or the URL |
| 401 | \`unauthorized\` | check project and key |
| 404, 405 | \`not_found\`, \`method_not_allowed\` | check path and method |
| 410 | \`cursor_expired\` | begin again without a cursor |
| 408, 413, 431 | \`invalid_query\`, \`payload_too_large\` | send a smaller request, or send it faster |
| 429 | \`rate_limited\` | wait for \`Retry-After\` |
| 500 | \`database_error\` | wait for \`Retry-After\`, repeat |
| 500 | \`internal_error\` | repeat later; tell the operator if it stays |
| 503 | \`overloaded\` | wait for \`Retry-After\`, repeat |

They are decided in this order: 405, 401, 429, 400, then the response, 410 or 500.

### What your program must tolerate

New fields in a contact, new response headers, and new values of \`code\` for a status that you know. Ignore what you don't know.

### Changes of this interface

A change only adds. Before anything ends, its responses carry \`Deprecation\` and \`Sunset\` headers for at least six months.
`;

/** The introduction of this service's API reference, with the configured rate limit. */
export const reference = (policy: BucketPolicy): ReferenceInfo => ({
	title: 'Company contacts',
	summary: 'The contacts of companies, mirrored from the CRM',
	description: description(policy).trim(),
	schemas: {
		CompanyContact: contact,
		CompanyContactList: plain(CompanyContactListSchema),
		CompanyContactChanges: plain(CompanyContactChangesSchema),
	},
	headers: limitHeaders,
});
