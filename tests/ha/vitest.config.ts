import { defineConfig } from 'vitest/config';

/** A separate configuration: the tests need root and Debian's packages, and use the same addresses, one file after the other. */
export default defineConfig({
	test: {
		include: ['tests/ha/**/*.test.ts'],
		testTimeout: 0,
		hookTimeout: 0,
		fileParallelism: false,
		reporters: ['default'],
	},
});
