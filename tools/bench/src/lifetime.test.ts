import { expect, test } from 'vitest';
import { createLifetime, Interrupted } from './lifetime.js';

test('everything ends once, in reverse order', async () => {
	const lifetime = createLifetime();
	const ended: string[] = [];
	for (const name of ['folder', 'database', 'service']) lifetime.own(() => void ended.push(name));
	const early = lifetime.own(() => void ended.push('early'));
	await Promise.all([early(), early()]);
	expect(ended).toEqual(['early']);
	await Promise.all([lifetime.end(), lifetime.end()]);
	await early();
	expect(ended).toEqual(['early', 'service', 'database', 'folder']);
});

test('a resource that starts during the shutdown ends at once', async () => {
	const lifetime = createLifetime();
	await lifetime.end();
	let ended = false;
	const own = () =>
		lifetime.own(() => {
			ended = true;
		});
	expect(own).toThrow(Interrupted);
	expect(ended).toBe(true);
	expect(lifetime.ending).toBe(true);
});

test('a resource that fails to end does not keep the others from ending', async () => {
	const lifetime = createLifetime();
	let ended = false;
	lifetime.own(() => {
		ended = true;
	});
	lifetime.own(() => Promise.reject(new Error('no')));
	await expect(lifetime.end()).rejects.toThrow('no');
	expect(ended).toBe(true);
});
