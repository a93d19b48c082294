import { credentials } from '@contacts/common/schemas/credentials.js';
import { answer, body } from '@contacts/personal-contacts/upsert-personal-contact.js';
import { Type } from '@sinclair/typebox';

/** What the service's own route checks and answers. */
export const upsertSchema = { querystring: Type.Object(credentials), body, response: { 200: answer } };
