import { defineConfig } from 'vitest/config';

export default defineConfig({
	test: {
		globalSetup: 'packages/common/src/testing/global-setup.ts',
		reporters: ['default', './packages/common/src/testing/closing-line.ts'],
		projects: [
			{
				extends: true,
				test: {
					name: 'tests',
					include: ['{packages,services,tools}/*/src/**/*.test.ts', 'tests/{process,docs}/**/*.test.ts'],
					testTimeout: 30_000,
					hookTimeout: 60_000,
				},
			},
			{
				// What needs programs beside Node.js (redis-server, nginx), and measures: one file at a time.
				extends: true,
				test: {
					name: 'system',
					include: ['tests/system/**/*.test.ts'],
					fileParallelism: false,
					testTimeout: 120_000,
					hookTimeout: 60_000,
				},
			},
			{
				// What breaks things on purpose and compares what was promised with what is there: one file at a time.
				extends: true,
				test: {
					name: 'faults',
					include: ['tests/faults/**/*.test.ts'],
					fileParallelism: false,
					testTimeout: 300_000,
					hookTimeout: 60_000,
				},
			},
		],
	},
});
