import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { body, response } from '@contacts/personal-contacts/upsert-personal-contact.js';

/** What the service's own route checks and answers. */
export const upsertSchema = { querystring: endpointQuery({}), body, response: { 200: response } };
