import { addProject } from '@contacts/testing/app.js';
import { type Shot, send } from '@contacts/testing/load.js';
import type { RunningService } from '@contacts/testing/services.js';
import { database } from '@contacts/testing/test.js';
import { onTestFinished } from 'vitest';
import { startService } from '../services.js';

// What the tests of this folder that load one service have in common.

const credentials = 'project=load&api_key=load-key';

export const addLoadProject = () => addProject(database.sql, 'load', 'load-key');

export async function start(
	name: 'personal-contacts' | 'company-contacts',
	environment: Record<string, string> = {},
): Promise<RunningService> {
	// By itself the space of new objects grows up to 32 MiB on Node.js 20, and up to 128 on 24 and a machine with much memory. With a
	// fixed one, the limits of the tests are those of what the service holds.
	const service = await startService(name, { NODE_OPTIONS: '--max-semi-space-size=16', ...environment });
	onTestFinished(() => service.stop());
	return service;
}

export const upsert = (chatId: number): Shot => ({
	method: 'POST',
	path: `/api/personal_contacts?${credentials}`,
	body: JSON.stringify({ chat_id: chatId || 1, name: `name ${chatId}` }),
});
export const list = (companyId: number): Shot => ({
	method: 'GET',
	path: `/api/company_contacts.list?${credentials}&company_id=${companyId}`,
});

/** Waits until three requests in a row are served. */
export async function untilServed(service: RunningService, next: (index: number) => Shot): Promise<void> {
	const begun = performance.now();
	for (let index = 0, inRow = 0; inRow < 3; index++) {
		const { result } = await send(service.url, next(1_000_000 + index));
		inRow = result === 200 ? inRow + 1 : 0;
		if (performance.now() - begun > 60_000) throw new Error(`still ${result} after a minute`);
	}
}
