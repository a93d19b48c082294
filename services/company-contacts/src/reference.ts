import { plain, type ReferenceInfo } from '@contacts/common/api-reference/document.js';
import type { BucketPolicy } from '@contacts/common/http/token-bucket.js';
import { CompanyContactChangesSchema } from './changes/list-changes.reference.js';
import { CompanyContactListSchema, CompanyContactSchema } from './list-company-contacts.reference.js';
import { limitHeaders } from './public-endpoint.reference.js';

const contact = plain(CompanyContactSchema);

/** The rows of the field table, from the schema of the response. */
const fields = Object.entries(contact.properties ?? {})
	.map(([name, schema]) => ('type' in schema ? [name, [schema.type].flat().join(' or '), schema.description] : []))
	.map(([name, type, meaning]) => `| \`${name}\` | ${type} | ${meaning} |`)
	.join('\n');

const description = ({ burst, perSecond }: BucketPolicy) => `
The business contacts of a company, mirrored from its CRM, for partners' programs. You need three things from the operator:
the **address** of the service, the **code of your project** and an **API key**. The [guide](/docs/guide) shows how to integrate,
step by step.

### First call

Enter the project and the key below, and press **Execute**. The same from a shell:

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
the key has expired or was revoked. A key is shown once, when it is created. The key is part of the URL: keep URLs out of logs, bug
reports and chats, and percent-encode the key.

### Polling

Store the \`ETag\` with the list and send it as \`If-None-Match\` the next time: if the list is unchanged, the response is an empty
**304**.

### Limit

Each project has a token bucket: ${burst} tokens, refilled at ${perSecond} a second. So ${burst} requests pass at once, then
${perSecond} every second. Beyond that the response is **429** with \`Retry-After\` in whole seconds. A refused request takes no
token. \`RateLimit-Remaining\` says what is left. All processes of the service share the bucket through Redis; without Redis, or while
it is unavailable, each has a separate bucket, so each lets ${burst} requests pass at once. Failed authentications are limited at the same rate for each client address; they
never take a token from a project.

### A copy of all contacts

To keep a copy, request \`company_contacts.changes\`. Without a cursor it returns every contact, page by page. Send the next request
with the \`cursor\` of each response until \`has_more\` is false, and store the last cursor with your copy. From then on a response
contains what has changed since its cursor, including deletions. Apply the changes in order: put a contact into your copy by its
\`id\`, or remove it where \`deleted\` is true. Your copy then equals the list. A cursor works for at least 30 days. After a **410**
start again without one.

### Errors

Every error is an \`application/problem+json\` ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)). Handle it by its \`code\`, and quote
its \`request_id\` when you ask for help. Repeating a request is always safe.

| status | code | what to do |
|---|---|---|
| 400 | \`invalid_query\` | correct the parameter that \`errors\` names, or the URL |
| 401 | \`unauthorized\` | check project and key |
| 404, 405 | \`not_found\`, \`method_not_allowed\` | check path and method |
| 410 | \`cursor_expired\` | start again without a cursor |
| 408, 413, 431 | \`invalid_query\`, \`payload_too_large\` | send a smaller request, or send it faster |
| 429 | \`rate_limited\` | wait for \`Retry-After\` |
| 500 | \`database_error\` | wait for \`Retry-After\`, repeat |
| 500 | \`internal_error\` | repeat later; tell the operator if it stays |
| 503 | \`overloaded\` | wait for \`Retry-After\`, repeat |

They are checked in this order: 405, 401, 429, 400, then the response, 410 or 500.

### What your program must tolerate

New fields in a contact, new response headers, and new values of \`code\` for a status that you know. Ignore what you don't know.

### Changes of this interface

A new release only adds. Before anything is removed, its responses have \`Deprecation\` and \`Sunset\` headers for at least six months.
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
