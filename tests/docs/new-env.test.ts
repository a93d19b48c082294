import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, test } from 'vitest';
import { read, root } from './pages.js';

test('operations/new-env.sh gives each default password of the compose file a random value, and never replaces .env', async () => {
	const folder = await temporaryFolder();
	mkdirSync(join(folder, 'operations'));
	for (const file of ['.env.example', 'operations/new-env.sh']) cpSync(join(root, file), join(folder, file));
	const [script, written] = [join(folder, 'operations/new-env.sh'), join(folder, '.env')];

	execFileSync('sh', [script]);
	const text = readFileSync(written, 'utf8');
	const withDefault = [...read('docker-compose.yml').matchAll(/\$\{([A-Z_]+):-local-only-/g)].map(([, name]) => name);
	const values = [...new Set(withDefault)].map((name) => new RegExp(`^${name}=([0-9a-f]{48})$`, 'm').exec(text)?.[1]);
	expect(values.length).toBeGreaterThan(5);
	expect(values).not.toContain(undefined);
	expect(new Set(values).size).toBe(values.length);
	expect(statSync(written).mode & 0o777).toBe(0o600);

	const again = spawnSync('sh', [script], { encoding: 'utf8' });
	expect([again.status, again.stderr]).toEqual([1, expect.stringMatching(/^There is a \.env already.*\n$/)]);
	expect(readFileSync(written, 'utf8')).toBe(text);
});
