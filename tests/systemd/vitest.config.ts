import { defineConfig } from 'vitest/config';

/** A separate configuration: the test needs root and Debian's packages. */
export default defineConfig({
	test: {
		include: ['tests/systemd/**/*.test.ts'],
		testTimeout: 300_000,
		// A release is made in this time.
		hookTimeout: 1_200_000,
		reporters: ['default'],
		expect: { poll: { timeout: 60_000, interval: 200 } },
	},
});
