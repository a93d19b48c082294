import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const testing = (file: string) => fileURLToPath(new URL(`../../packages/testing/src/${file}`, import.meta.url));

/** A separate configuration: no promise depends on these tests, and they need more programs or minutes than a push has. */
export default defineConfig({
	test: {
		include: ['tests/night/**/*.test.ts'],
		testTimeout: 240_000,
		hookTimeout: 120_000,
		expect: { poll: { timeout: 20_000 } },
		globalSetup: testing('global-setup.ts'),
		reporters: ['default', testing('closing-line.ts')],
		server: { deps: { external: [/\/dist\//] } },
	},
});
