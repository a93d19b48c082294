import { expect, test } from 'vitest';
import { judge, type Listed } from './verdict.js';

const all: Listed = {
	...{ total: 1000, staged: 1000, live: 1000, missing: 0, emptied: 0 },
	...{ confirmed: null, remapped: false },
};
const few = { total: 5, staged: 5, live: 5 };

test.each<[string, Partial<Listed>, 'published' | 'held' | 'incomplete']>([
	['everything', {}, 'published'],
	['98 % of what the CRM counts', { staged: 980 }, 'published'],
	['less than 98 %', { staged: 979 }, 'incomplete'],
	['less than 98 %, and a loss', { staged: 979, missing: 21 }, 'incomplete'],
	['contacts that the CRM does not count', { total: undefined, staged: 3, live: 0 }, 'published'],
	['nothing, of an empty CRM', { total: 0, staged: 0, live: 0 }, 'published'],
	['20 contacts less', { missing: 20 }, 'published'],
	['21 contacts less', { missing: 21 }, 'held'],
	['20 contacts that would become empty', { emptied: 20 }, 'published'],
	['21 contacts that would become empty', { emptied: 21 }, 'held'],
	['21 of both', { missing: 10, emptied: 11 }, 'held'],
	['2 % of many less', { live: 5000, missing: 100 }, 'published'],
	['more than 2 % of many less', { live: 5000, missing: 60, emptied: 41 }, 'held'],
	['four of five contacts less', { ...few, missing: 4 }, 'published'],
	['none of five contacts', { ...few, missing: 5 }, 'held'],
	['none of the phones of five contacts', { ...few, emptied: 5 }, 'held'],
	['as little as somebody has confirmed', { missing: 30, emptied: 11, confirmed: 41 }, 'published'],
	['less than somebody has confirmed', { missing: 30, emptied: 12, confirmed: 41 }, 'held'],
	['empty fields of another configuration', { emptied: 1000, remapped: true }, 'published'],
	['other contacts, of another configuration', { missing: 1000, remapped: true }, 'held'],
])('the verdict on a full run that has listed %s', (_, listed, outcome) => {
	const { isIncomplete, isHeld } = judge({ ...all, ...listed });
	expect(isIncomplete ? 'incomplete' : isHeld ? 'held' : 'published').toBe(outcome);
});
