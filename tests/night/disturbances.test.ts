import { seededRandom } from '@contacts/testing/random.js';
import { test } from 'vitest';
import { kinds } from '../faults/database.js';
import { deal } from '../faults/deal.js';

test.each(kinds)(
	'every promise holds whatever happens to a system of kind %s, with each disturbance',
	(kind) => deal(kind, seededRandom(), true),
	1_000_000,
);
