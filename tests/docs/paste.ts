import { join } from 'node:path';
import { environmentOf, type RunningProcess, startProcess } from '@contacts/testing/process.js';
import { expect } from 'vitest';
import { root } from './pages.js';

/**
 * Runs lines of a page in this folder, to their end, without npx, which would install first.
 *
 * @throws Error with their output when one of them fails
 */
export async function paste(lines: string, cwd: string, environment: Record<string, string>): Promise<RunningProcess> {
	const npx = `npx() { shift 3; node '${join(root, 'tools/cli/dist/main.js')}' "$@"; }`;
	const env = environmentOf(environment);
	const script = startProcess('bash', ['-euo', 'pipefail', '-c', `${npx}\n${lines}`], { cwd, env });
	expect(await script.exit, script.output()).toBe(0);
	return script;
}
