import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** A separate configuration: the test needs Docker with Compose, and nothing else. */
export default defineConfig({
	test: {
		include: ['tests/compose/**/*.test.ts'],
		testTimeout: 600_000,
		// The images are built in this time.
		hookTimeout: 900_000,
		// Each test goes on with the containers of the one before.
		bail: 1,
		fileParallelism: false,
		reporters: ['default', fileURLToPath(new URL('../../packages/testing/src/closing-line.ts', import.meta.url))],
	},
});
