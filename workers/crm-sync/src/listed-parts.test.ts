import { describe } from 'vitest';
import { testPortals } from './testing/history.js';

// What no documentation says: whether crm.item.list returns all phones and companies.

describe('with plain custom fields', () =>
	testPortals('plain', [
		{},
		{ companyIds: 'absent' },
		{ companyIds: 'empty' },
		{ companyIds: 'first' },
		{ companyIds: 'sometimes' },
		{ fm: 'absent' },
		{ fm: 'empty' },
		{ fm: 'first' },
		{ fm: 'sometimes' },
		{ companyIds: 'absent', fm: 'absent' },
		{ companyIds: 'sometimes', fm: 'sometimes' },
	]));

describe('with lists as custom fields', () => testPortals('lists', [{}, { companyIds: 'sometimes', fm: 'sometimes' }]));
