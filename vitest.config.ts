import { defineConfig } from 'vitest/config';

export default defineConfig({
	test: {
		globalSetup: 'packages/common/src/testing/global-setup.ts',
		include: ['{packages,services,tools}/*/src/**/*.test.ts', 'tests/**/*.test.ts'],
		reporters: ['default', './packages/common/src/testing/closing-line.ts'],
		testTimeout: 30_000,
		hookTimeout: 60_000,
	},
});
