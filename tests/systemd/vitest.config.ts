import { defineConfig } from 'vitest/config';

/** A separate configuration: the test needs root and Debian's packages. */
export default defineConfig({
	test: {
		include: ['tests/systemd/**/*.test.ts'],
		testTimeout: 300_000,
		hookTimeout: 300_000,
		reporters: ['default'],
		expect: { poll: { timeout: 60_000, interval: 200 } },
	},
});
