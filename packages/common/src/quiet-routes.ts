declare module 'fastify' {
	interface FastifyContextConfig {
		/** Asked by machines every few seconds: its requests are logged at the level `debug` and not traced. */
		quiet?: boolean;
	}
}

/** Options of a route that is asked by machines every few seconds. */
export const quietRoute = { config: { quiet: true, otel: false } } as const;
