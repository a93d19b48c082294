import { guideText, type ReferenceInfo, type ResponseHeader } from '@contacts/common/api-reference/document.js';
import type { BucketPolicy } from '@contacts/common/http/token-bucket.js';

/** A response to a request that has reached the rate limit. */
const limited = [200, 304, 400, 410, 429, 500, 503];
const count = { type: 'integer', minimum: 0 } as const;

const headers: Record<string, ResponseHeader> = {
	'RateLimit-Limit': { description: 'The size of the bucket.', schema: count, example: 250, statuses: limited },
	'RateLimit-Remaining': { description: 'Tokens left.', schema: count, example: 249, statuses: limited },
	'RateLimit-Reset': {
		description: 'Seconds until the bucket is full, or on a 429 until the next token.',
		schema: count,
		example: 1,
		statuses: limited,
	},
	ETag: {
		description: 'Identifies this body in this encoding. Send it back as `If-None-Match`.',
		schema: { type: 'string', pattern: '^"[^"]+"$' },
		example: '"4rE2kJ0bqv9nW1mXy7cTzL3hSdA"',
		statuses: [200, 304],
	},
	'Contacts-Synced-At': {
		description:
			'Of the list: when the mirror was last found equal to the CRM (RFC 3339). It distinguishes an old list from one that is merely unchanged. Absent where nothing is mirrored.',
		schema: { type: 'string', format: 'date-time' },
		example: '2025-11-04T09:30:00.000Z',
		statuses: [200, 304],
	},
};

/** The introduction of this service's API reference, with the configured rate limit. */
export const reference = ({ burst, perSecond }: BucketPolicy): ReferenceInfo => ({
	title: 'Company contacts',
	summary: 'The contacts of companies, mirrored from the CRM',
	description: guideText(new URL('../../../docs/partners.md', import.meta.url)).replace(
		'250 tokens, refilled at 5 a second',
		`${burst} tokens, refilled at ${perSecond} a second`,
	),
	problems: ['rate_limited'],
	headers,
});
