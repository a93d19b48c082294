import { type TProperties, Type } from '@sinclair/typebox';
import { maxKeyLength } from '../auth/api-key.js';

/** The query parameters of every request to an endpoint. Authentication checks them before any schema. */
const credentials = {
	project: Type.String({ description: 'Code of the project that the API client belongs to.', minLength: 1 }),
	api_key: Type.String({ description: 'One of the keys of that project.', minLength: 1, maxLength: maxKeyLength }),
};

/** The query of an endpoint: the credentials and these parameters only. A misspelt parameter must not be ignored. */
export function endpointQuery<Parameters extends TProperties>(parameters: Parameters) {
	return Type.Object({ ...credentials, ...parameters }, { additionalProperties: false });
}

/** The query of all other routes: it must be empty. */
export const emptyQuery = Type.Object({}, { additionalProperties: false });
