import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
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
	const programs = mkdtempSync(join(tmpdir(), 'contacts-npx-'));
	const npx = `#!/bin/sh\nshift 3\nexec node '${join(root, 'tools/cli/dist/main.js')}' "$@"\n`;
	writeFileSync(join(programs, 'npx'), npx, { mode: 0o755 });
	const env = { ...environmentOf(environment), PATH: `${programs}:${process.env.PATH}` };
	const script = startProcess('bash', ['-euo', 'pipefail', '-c', lines], { cwd, env });
	try {
		expect(await script.exit, script.output()).toBe(0);
	} finally {
		rmSync(programs, { recursive: true, force: true });
	}
	return script;
}
