import { onTestFinished } from 'vitest';
import type { ProcessOptions } from './process.js';
import { type ProgramName, type ServiceProcess, spawnService } from './services.js';

/** Starts a built service for the length of a test: it is killed at the end, in whatever state the test has left it. */
export function startServiceProcess(
	name: ProgramName,
	env: Record<string, string>,
	options?: ProcessOptions,
): ServiceProcess {
	const service = spawnService(name, env, options);
	onTestFinished(() => service.stop('SIGKILL'));
	return service;
}
