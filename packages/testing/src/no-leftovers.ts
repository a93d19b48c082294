import { statSync } from 'node:fs';
import { Socket } from 'node:net';
import { afterAll, expect, vi } from 'vitest';

// Runs before each test file of a project whose files share their processes. Fails a file that leaves something behind which
// could change the result of the files after it.

/** Objects of Node.js that a test may spy on. */
const shared: object[] = [globalThis, console, process, process.stdout, process.stderr, performance, Date, Math];

const isSpy = (owner: object, name: string) =>
	vi.isMockFunction(Object.getOwnPropertyDescriptor(owner, name)?.value as unknown);

const currentState = () => ({
	environment: { ...process.env },
	folder: process.cwd(),
	exitCode: process.exitCode,
	globals: Object.getOwnPropertyNames(globalThis),
	spies: [...shared, Socket.prototype].flatMap((owner) =>
		Object.getOwnPropertyNames(owner).filter((name) => isSpy(owner, name)),
	),
	fakeTimers: vi.isFakeTimers(),
	listeners: (['uncaughtException', 'unhandledRejection', 'warning', 'SIGINT', 'SIGTERM', 'SIGHUP'] as const).map(
		(event) => process.rawListeners(event).length,
	),
	servers: process.getActiveResourcesInfo().filter((kind) => kind === 'TCPServerWrap').length,
});

const before = currentState();
afterAll(async () => {
	// While the last stat of a process was of a pipe or a socket, Node.js 20 resolves no symbolic link of an import. Then the
	// next file would load packages a second time, or not find them.
	statSync('.');
	// A closed server may need a moment.
	await vi.waitFor(() => expect(currentState()).toEqual(before), { timeout: 20_000 });
});
