import type { OpenAPIV3_1 } from 'openapi-types';

/** The description of an operation in the API reference, in addition to the schemas that validate its requests. */
export interface OperationReference {
	summary: string;
	/** CommonMark. */
	description: string;
	/** Parameters that are not in the request's schemas: headers that HTTP itself defines. */
	parameters?: OpenAPIV3_1.ParameterObject[];
	/** Examples of a body by name. */
	bodyExamples?: Record<string, OpenAPIV3_1.ExampleObject>;
	/** Responses by status. They are documentation only, and do not serialise anything. */
	responses: Record<number, OpenAPIV3_1.ResponseObject>;
}

declare module 'fastify' {
	interface FastifyContextConfig {
		/** Puts the route into the API reference. */
		reference?: OperationReference;
	}
}
