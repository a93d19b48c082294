import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Where no run before has told how long each file takes, large files come first. The laboratory's are small, and take longest. */
class LaboratoryFirst extends BaseSequencer {
	override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
		const sorted = await super.sort(files);
		const isLaboratory = ({ moduleId }: TestSpecification) => Number(moduleId.includes('/disturbances-'));
		return sorted.sort((first, second) => isLaboratory(second) - isLaboratory(first));
	}
}

/** What starts, kills or waits for processes, or fills their memory. */
const processTests = ['tests/process/**/*.test.ts', '{packages,services,workers,tools}/*/src/**/*.process.test.ts'];

export default defineConfig({
	test: {
		// Two more than there are cores, because a worker often waits. Each has some ten connections to the database. The projects
		// without an order run beside one another, `process` and `system` with their long files first.
		maxWorkers: Math.min(availableParallelism() + 2, 8),
		sequence: { sequencer: LaboratoryFirst },
		// A condition is waited for, on a busy machine too: the default is a second.
		expect: { poll: { timeout: 20_000 } },
		globalSetup: 'packages/testing/src/global-setup.ts',
		reporters: ['default', './packages/testing/src/closing-line.ts'],
		// Of what is loaded, compiled packages too, which are shown by their sources.
		coverage: {
			exclude: ['**/*.test.ts', '**/testing/**', 'tests/**'],
			reporter: [['text', { file: 'coverage.txt' }], 'json'],
		},
		// Compiled packages need no transformation: Node.js imports them itself.
		server: { deps: { external: [/\/dist\//] } },
		projects: [
			{
				// Behaviour: what both services and the operator's command promise.
				extends: true,
				test: {
					name: 'tests',
					include: ['{packages,services,workers,tools}/*/src/**/*.test.ts', 'tests/docs/**/*.test.ts'],
					exclude: processTests,
					// Several files share a process, which saves a fifth of the processor time.
					isolate: false,
					setupFiles: 'packages/testing/src/no-leftovers.ts',
					// Ten times what the longest test takes on a quiet machine.
					testTimeout: 120_000,
					hookTimeout: 60_000,
				},
			},
			{
				extends: true,
				test: {
					name: 'process',
					include: processTests,
					testTimeout: 120_000,
					hookTimeout: 120_000,
				},
			},
			{
				// What needs programs beside Node.js: redis-server, nginx, a browser.
				extends: true,
				test: {
					name: 'system',
					include: ['tests/system/**/*.test.ts'],
					testTimeout: 120_000,
					hookTimeout: 120_000,
				},
			},
			{
				// What breaks things on purpose and compares what was promised with what is there: most of it waits.
				extends: true,
				test: {
					name: 'faults',
					include: ['tests/faults/**/*.test.ts'],
					// Ten times what the longest test takes on a quiet machine.
					testTimeout: 1_000_000,
					hookTimeout: 60_000,
					// Their limits are in seconds of the clock, so fewer run beside one another, and nothing else.
					maxWorkers: Math.min(availableParallelism() + 1, 8),
					sequence: { groupOrder: 1 },
				},
			},
			{
				// What loads a service as far as it can be, or measures it: one file at a time, with the machine for itself.
				extends: true,
				test: {
					name: 'load',
					include: ['tests/load/**/*.test.ts'],
					fileParallelism: false,
					testTimeout: 120_000,
					hookTimeout: 60_000,
					sequence: { groupOrder: 2 },
				},
			},
		],
	},
});
