import { describe, expect, it } from 'vitest';
import { addMany, Clock, call, ids, itemList, portal, upTo } from './testing/client.js';

describe('changes while a list is read', () => {
	it('between two pages: a deletion moves what comes after it for paging by offset, not by id', async () => {
		const standIn = await portal();
		addMany(standIn, 60);
		standIn.onRequest(({ number }) => {
			if (number === 2) standIn.remove(10);
		});
		expect(ids(await itemList(standIn))).toEqual(upTo(50));
		// Offset paging loses contact 51.
		expect(ids(await itemList(standIn, { start: 50 }))).toEqual(upTo(60, 52));
		expect(ids(await itemList(standIn, { start: -1, filter: { '>id': 50 } }))).toEqual(upTo(60, 51));
	});

	it('between the ids and the rows of a page: the page is short, but not the last one [SRC]', async () => {
		const standIn = await portal();
		addMany(standIn, 120);
		const pages: unknown[] = [];
		const stop = standIn.onPage((page) => {
			pages.push([page.number, page.method, page.ids.length]);
			standIn.remove(20);
			standIn.update(30, { name: 'changed' });
			standIn.add({ id: 1000 });
		});
		const { body } = await itemList(standIn);
		stop();
		expect(pages).toEqual([[1, 'crm.item.list', 50]]);
		expect(body.result.items).toHaveLength(49);
		expect(body.result.items.find((row) => row.id === 30)?.name).toBe('changed');
		expect(body).toMatchObject({ total: 120, next: 50 });
	});

	it.each([true, false])('reach the rows of crm.contact.list: %s [??]', async (classicTwoQueries) => {
		const standIn = await portal({ switches: { classicTwoQueries } });
		addMany(standIn, 3);
		standIn.onPage(() => standIn.remove(2));
		const { body } = await call(standIn, 'crm.contact.list');
		expect(body.result).toHaveLength(classicTwoQueries ? 2 : 3);
	});
});

describe('a change', () => {
	it('moves updatedTime, in whole seconds, unless told otherwise', async () => {
		const clock = new Clock();
		const standIn = await portal({ clock: clock.read });
		const contact = standIn.add({ name: 'A' });
		const added = contact.updatedTime;
		clock.now += 1500;
		standIn.update(contact.id, { name: 'B' }, { touch: false });
		expect(contact).toMatchObject({ name: 'B', updatedTime: added });
		standIn.update(contact.id, { name: 'C' });
		expect(contact.updatedTime.getTime()).toBe(added.getTime() + 1000);
		const given = new Date(0);
		standIn.update(contact.id, { updatedTime: given });
		expect(contact.updatedTime).toBe(given);
		expect(() => standIn.update(99, {})).toThrow('no contact 99');
	});

	it.each([false, true])('of company links alone moves updatedTime: %s [??]', async (linkChangeTouches) => {
		const clock = new Clock();
		const standIn = await portal({ clock: clock.read, switches: { linkChangeTouches } });
		const { id, updatedTime } = standIn.add({});
		clock.passSeconds(5);
		standIn.update(id, { companyIds: [1, 2] });
		expect(standIn.contacts.get(id)?.updatedTime.getTime() !== updatedTime.getTime()).toBe(linkChangeTouches);
		clock.passSeconds(5);
		standIn.update(id, { companyIds: [2] }, { touch: true });
		expect(standIn.contacts.get(id)?.updatedTime.getTime()).toBe(clock.now);
	});

	it('several in one second have one updatedTime [DOC]', async () => {
		const clock = new Clock();
		const standIn = await portal({ clock: clock.read });
		addMany(standIn, 3);
		clock.passSeconds(10);
		standIn.update(3, { name: 'x' });
		clock.now += 400;
		standIn.update(1, { name: 'y' });
		expect(ids(await itemList(standIn, { filter: { '>=updatedTime': '2026-08-20T09:10:39+03:00' } }))).toEqual([1, 3]);
	});

	it.each([
		[true, false],
		[false, true],
	])('a deletion is undone with its id: %s, touching: %s [??]', async (restoreKeepsId, restoreTouches) => {
		const clock = new Clock();
		const standIn = await portal({ clock: clock.read, switches: { restoreKeepsId, restoreTouches } });
		addMany(standIn, 2);
		const before = clock.now;
		standIn.remove(1);
		expect(ids(await itemList(standIn))).toEqual([2]);
		clock.passSeconds(60);
		const restored = standIn.restore(1);
		expect(ids(await itemList(standIn))).toEqual(restoreKeepsId ? [1, 2] : [2, 3]);
		expect(restored.name).toBe('Name 1');
		expect(restored.updatedTime.getTime()).toBe(restoreTouches ? clock.now : before);
		expect(() => standIn.restore(1)).toThrow('recycle bin');
	});

	it('a merge adds to the winner what it lacks, and the loser can’t be restored [FIELD]', async () => {
		const clock = new Clock();
		const standIn = await portal({ clock: clock.read });
		const phone = (id: number) => ({ id, valueType: 'WORK', value: `+4420794601${id}` });
		standIn.add({ name: 'A', companyIds: [1, 2], phones: [phone(10)], uf: { UF_CRM_1: 'x' } });
		standIn.add({ lastName: 'B', companyIds: [2, 3], phones: [phone(11)], uf: { UF_CRM_1: 'y', UF_CRM_2: true } });
		clock.passSeconds(60);
		standIn.merge(1, 2);
		expect([...standIn.contacts.values()]).toEqual([
			expect.objectContaining({
				id: 1,
				name: 'A',
				lastName: 'B',
				companyIds: [1, 2, 3],
				phones: [phone(10), phone(11)],
				uf: { UF_CRM_1: 'x', UF_CRM_2: true },
				updatedTime: new Date(clock.now),
			}),
		]);
		expect(() => standIn.restore(2)).toThrow();
		expect(() => standIn.merge(1, 1)).toThrow();
	});

	it('ids of deleted contacts are not used again; the index follows the map', async () => {
		const standIn = await portal();
		addMany(standIn, 3);
		standIn.remove(3);
		expect(standIn.add({}).id).toBe(4);
		expect(() => standIn.add({ id: 4 })).toThrow('already');
		const time = new Date(0);
		standIn.contacts.set(2.5 * 2, { id: 5, createdTime: time, updatedTime: time });
		standIn.contacts.delete(1);
		standIn.contacts.set(3, { id: 3, createdTime: time, updatedTime: time });
		expect(ids(await itemList(standIn))).toEqual([2, 3, 4, 5]);
		expect(standIn.add({}).id).toBe(6);
		standIn.contacts.clear();
		expect(ids(await itemList(standIn))).toEqual([]);
	});
});
