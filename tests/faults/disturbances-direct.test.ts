import { seededRandom } from '@contacts/testing/random.js';
import { test } from 'vitest';
import { deal } from './deal.js';

test('every promise holds whatever happens, for clients that obey the guides', () => deal('direct', seededRandom()));
