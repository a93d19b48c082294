import type { Reporter, TestModule } from 'vitest/node';

/** Prints `N passed, N failed` as the last line of a run. A file that can't be run counts as failed. */
export default class ClosingLine implements Reporter {
	onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
		let passed = 0;
		let failed = errors.length;
		for (const module of modules) {
			if (module.errors().length > 0) failed++;
			for (const test of module.children.allTests()) {
				if (test.result().state === 'passed') passed++;
				if (test.result().state === 'failed') failed++;
			}
		}
		process.once('exit', () => process.stdout.write(`${passed} passed, ${failed} failed\n`));
	}
}
