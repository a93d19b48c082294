import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { body, response } from '@contacts/personal-contacts/upsert-personal-contact.js';

/** The request and response schemas of the service's own route. */
export const upsertSchema = { querystring: endpointQuery({}), body, response: { 200: response } };
