import { plain, type ReferenceInfo } from '@contacts/common/api-reference/document.js';
import { response } from './set-direct-subscription.js';
import { response as upsertResponse } from './upsert-personal-contact.js';

const description = `
Saves the users of the bot's personal chats, and which of them have a direct subscription, for the bot's backend. It is internal: it
can't be reached through the public gateway. You need three things from the operator: the **address** of the service, the **code of
your project** and an **API key**.

### First call

Enter the project and the key below, and press **Execute**: the user in the body is saved. The same from a shell:

\`\`\`sh
curl -X POST 'http://HOST:3001/api/personal_contacts?project=PROJECT&api_key=KEY' \\
  -H 'Content-Type: application/json' \\
  -d '{"chat_id": 5550001, "username": "ivan", "name": "Ivan Petrov", "birth_date": "1990-05-17"}'
\`\`\`

### Credentials

Send the query parameters \`project\` and \`api_key\`, each exactly once. No header, token, cookie or session counts. Whatever is wrong with
them, the response is the same **401**, before the body is read. A key is shown once, when it is created, and a revocation takes effect
within a second. The key is part of the URL: keep URLs out of logs, and percent-encode the key.

### Errors

Every error is an \`application/problem+json\` ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)). Handle it by its \`code\`, and
quote its \`request_id\` when you ask for help.

| status | code | what to do |
|---|---|---|
| 400 | \`invalid_json\`, \`invalid_body\`, \`invalid_query\` | correct the request; \`errors\` names the fields |
| 401 | \`unauthorized\` | check project and key |
| 404, 405 | \`not_found\`, \`method_not_allowed\` | check path and method |
| 408, 413, 431 | \`invalid_query\`, \`payload_too_large\` | send a smaller request, or send it faster |
| 415 | \`unsupported_media_type\` | send \`Content-Type: application/json\` |
| 500 | \`database_error\` | wait for \`Retry-After\`, repeat |
| 500 | \`internal_error\` | repeat later; tell the operator if it stays |
| 503 | \`overloaded\` | wait for \`Retry-After\`, repeat |

They are checked in this order: 405, 401, 415, 413, 400, then the response or 500. Repeating a request is always safe.
`.trim();

/** The introduction of this service's API reference. */
export const reference: ReferenceInfo = {
	title: 'Personal contacts',
	summary: "The users of the bot's personal chats",
	description,
	schemas: { Outcome: plain(upsertResponse), Saved: plain(response) },
};
