import { addProject } from '@contacts/testing/app.js';
import { type Shot, type ShotResult, send } from '@contacts/testing/load.js';
import { type MachineDelays, watchDelays } from '@contacts/testing/machine-delays.js';
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

/** Watches the machine while this service has load: by the same requests to another one, and by what the kernel says. */
export async function watchMachine({ pid }: RunningService): Promise<() => Promise<MachineDelays>> {
	const control = await start('personal-contacts');
	return watchDelays(() => send(control.url, upsert(1)), pid);
}

/** The same outcomes, without the delays of the machine. */
export const withoutDelays = (outcomes: readonly ShotResult[], machine: MachineDelays): ShotResult[] =>
	outcomes.map((each) => ({
		...each,
		latency: Math.max(0, each.latency - machine.during(each.begun, each.begun + each.latency)),
	}));

/** Waits until three requests in a row are served. @returns how long that took, in milliseconds */
export async function untilServed(service: RunningService, next: (index: number) => Shot): Promise<number> {
	const begun = performance.now();
	for (let index = 0, inRow = 0; inRow < 3; index++) {
		const { result } = await send(service.url, next(1_000_000 + index));
		inRow = result === 200 ? inRow + 1 : 0;
		if (performance.now() - begun > 60_000) throw new Error(`still ${result} after a minute`);
	}
	return performance.now() - begun;
}
