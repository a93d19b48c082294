import { onTestFinished } from 'vitest';
import type { ProcessOptions } from './process.js';
import { type ProgramName, type ServiceProcess, spawnService } from './services.js';

/** Starts a built service for the duration of a test. It is killed at the end of the test in any state. */
export function startServiceProcess(
	name: ProgramName,
	env: Record<string, string>,
	options?: ProcessOptions,
): ServiceProcess {
	const service = spawnService(name, env, options);
	onTestFinished(() => service.stop('SIGKILL'));
	return service;
}
