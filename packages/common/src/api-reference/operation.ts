import type { OpenAPIV3_1 } from 'openapi-types';

/** What the API reference says of an operation beyond the schemas that its requests are checked by. */
export interface OperationReference {
	summary: string;
	/** CommonMark. */
	description: string;
	/** Parameters that the request's schemas don't have: headers that HTTP itself gives a meaning. */
	parameters?: OpenAPIV3_1.ParameterObject[];
	/** Examples of a body by name. */
	bodyExamples?: Record<string, OpenAPIV3_1.ExampleObject>;
	/** By status. They describe: nothing is serialised by them. */
	responses: Record<number, OpenAPIV3_1.ResponseObject>;
}

declare module 'fastify' {
	interface FastifyContextConfig {
		/** Puts the route into the API reference. */
		reference?: OperationReference;
	}
}
