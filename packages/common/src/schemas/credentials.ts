import { Type } from '@sinclair/typebox';
import { maxKeyLength } from '../auth/api-key.js';

/** The query parameters that every request to an endpoint carries. They are checked by authentication, before any schema. */
export const credentials = {
	project: Type.String({ description: 'Code of the project that the API client belongs to.', minLength: 1 }),
	api_key: Type.String({ description: 'One of the keys of that project.', minLength: 1, maxLength: maxKeyLength }),
};
