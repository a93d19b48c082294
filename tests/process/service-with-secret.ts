import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { addProject } from '@contacts/testing/app.js';
import { startServiceProcess } from '@contacts/testing/service-process.js';
import type { ServiceProcess } from '@contacts/testing/services.js';
import { database } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';

// Services whose database URL has a password that no process may write to its output.

export const password = 'canary-password-61c9';
/** What the processes of this file have written. */
const written: string[] = [];

const role = () => new URL(database.url).pathname.slice(1);

/** The test database's URL with that password, and with this part changed. */
export const urlWithSecret = (part: Partial<URL> = {}) =>
	Object.assign(new URL(database.url), { username: role(), password, ...part }).href;

export async function addSecret(): Promise<void> {
	await database.sql.unsafe(`create role ${role()} superuser login password '${password}'`);
	await addProject(database.sql, 'good', 'good-key');
}

export const dropSecret = () => database?.sql.unsafe(`drop role ${role()}`);

export function start(name: ServiceName, environment: Record<string, string> = {}): ServiceProcess {
	const service = startServiceProcess(name, { DATABASE_URL: urlWithSecret(), ...environment });
	onTestFinished(() => void written.push(service.output()));
	return service;
}

export function expectSecretUnwritten(processes: number): void {
	expect(written).toHaveLength(processes);
	expect(written.join('\n')).not.toContain('canary');
}
