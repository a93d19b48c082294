import type { Reporter, TestModule } from 'vitest/node';

/**
 * Prints each failure as a line that begins with `failed: `, and `N passed, N failed` as the last line of a run. A file or
 * a group of tests that can't be run counts as failed.
 */
export default class ClosingLine implements Reporter {
	onTestRunEnd(modules: readonly TestModule[], errors: readonly { message: string }[]): void {
		let passed = 0;
		const failures: string[] = errors.map((error) => firstLine('outside a test', error));
		for (const module of modules) {
			const file = `${module.project.name} ${module.relativeModuleId}`;
			for (const suite of [module, ...module.children.allSuites()]) {
				const [error] = suite.errors();
				if (error !== undefined) failures.push(firstLine(file, error));
			}
			for (const test of module.children.allTests()) {
				const { state, errors = [] } = test.result();
				if (state === 'passed') passed++;
				if (state === 'failed') failures.push(firstLine(`${file} > ${test.fullName}`, errors[0]));
			}
		}
		const lines = [...failures.map((failure) => `failed: ${failure}`), `${passed} passed, ${failures.length} failed`];
		process.once('exit', () => process.stdout.write(`${lines.join('\n')}\n`));
	}
}

/** A test may throw something without a message. */
const firstLine = (where: string, error: { message?: string } | undefined) =>
	`${where}: ${error?.message?.split('\n')[0] ?? 'no error was told'}`;
