import { integerVariable, serviceVariables, urlVariable } from '@contacts/common/process/config.js';
import { type Static, Type } from '@sinclair/typebox';

/** The variables that this service reads. */
export const variables = Type.Composite([
	serviceVariables(3000),
	Type.Object({
		REDIS_URL: Type.Optional(
			urlVariable(
				['redis:', 'rediss:'],
				'a URL like redis://user:password@host:6379/0',
				'the Redis through which all replicas share the rate limit',
			),
		),
		RATE_LIMIT_PER_SECOND: integerVariable(1, 1_000_000, 5, 'tokens that a project gets back every second'),
		LIST_CACHE_MEGABYTES: integerVariable(1, 16_384, 64, 'memory for lists that were requested recently, in MiB'),
		LIST_STREAM_MEGABYTES: integerVariable(
			0,
			16_384,
			32,
			'size, as a cautious estimate in MiB, from which a list is streamed from the database; no more than `LIST_CACHE_MEGABYTES`',
		),
		RATE_LIMIT_BURST: integerVariable(1, 1_000_000_000, 250, 'tokens that a project can save up'),
	}),
]);

export type Config = Static<typeof variables>;
