import { describe } from 'vitest';
import { eachPosition, fieldFormats, testPortals } from './testing/history.js';

// Beside switches.test.ts, because the two run at the same time: crm.contact.list with single look-ups.

describe('by the classic list, list fields', () =>
	testPortals('lists', { itemListCompanyIds: 'absent' }, eachPosition()));

describe('by the classic list, plain fields', () =>
	testPortals('plain', { itemListFm: 'absent' }, eachPosition(fieldFormats)));
