import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { contacts } from '../testing/command.js';

test('subscription import reads 100,000 lines twice within the time limit of a test', async () => {
	const lines = Array.from(
		{ length: 100_000 },
		(_, index) => `${index + 1},2026-01-01,${index % 3 === 0 ? '2026-03-01' : ''}`,
	);
	const path = join(await temporaryFolder(), 'subscribers.csv');
	await writeFile(path, `chat_id,started_at,ended_at\n${lines.join('\n')}\n`);
	const first = await contacts(database.url, ['subscription', 'import', path, '--json']);
	expect(JSON.parse(first.stdout)).toEqual({ records: 100_000, added: 100_000, changed: 0, unchanged: 0, older: 0 });
	const again = await contacts(database.url, ['subscription', 'import', path, '--json']);
	expect(JSON.parse(again.stdout)).toEqual({ records: 100_000, added: 0, changed: 0, unchanged: 100_000, older: 0 });
}, 180_000);
