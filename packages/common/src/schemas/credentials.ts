import { type TProperties, Type } from '@sinclair/typebox';
import { maxKeyLength } from '../auth/api-key.js';

/** The query parameters that every request to an endpoint carries. They are checked by authentication, before any schema. */
const credentials = {
	project: Type.String({ description: 'Code of the project that the API client belongs to.', minLength: 1 }),
	api_key: Type.String({ description: 'One of the keys of that project.', minLength: 1, maxLength: maxKeyLength }),
};

/** The query of an endpoint: the credentials, these parameters, and no other. A misspelt one must not be passed over. */
export function endpointQuery<Parameters extends TProperties>(parameters: Parameters) {
	return Type.Object({ ...credentials, ...parameters }, { additionalProperties: false });
}

/** The query of whatever is no endpoint: there is nothing that it may hold. */
export const emptyQuery = Type.Object({}, { additionalProperties: false });
