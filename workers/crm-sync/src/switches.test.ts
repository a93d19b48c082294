import { switchPositions } from '@contacts/testing/bitrix24/stand-in.js';
import { test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { eachPosition, fieldFormats, testPortals } from './testing/history.js';

// The synchroniser on every kind of portal that the stand-in can be: a switch or position that is added there is tested here,
// by crm.item.list, and in switches-classic.test.ts by crm.contact.list.

test('each switch has at least two positions', () => {
	for (const [name, values] of Object.entries(switchPositions)) {
		expect(new Set(values.map((value) => JSON.stringify(value))).size, name).toBeGreaterThanOrEqual(2);
	}
});

describe('by items, plain fields', () => testPortals('plain', {}, eachPosition()));

describe('by items, list fields', () => testPortals('lists', {}, eachPosition(fieldFormats)));

describe('lists that are cut off silently are detected', () =>
	testPortals('plain', { itemHints: 'absent' }, [
		['without companies', { itemListCompanyIds: 'empty' }],
		['with only the primary company', { itemListCompanyIds: 'primary' }],
		['without phones', { itemListFm: 'empty' }],
	]));
