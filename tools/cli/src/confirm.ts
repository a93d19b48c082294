import { createInterface } from 'node:readline/promises';
import { escapeControls } from '@contacts/common/observability/escape-controls.js';
import { CommandError, UsageError } from './errors.js';
import { streams } from './streams.js';

export interface ConfirmOptions {
	/** Don't ask. */
	yes?: boolean;
	/** Without a terminal: refuse, or continue, which scripts rely on. */
	unattended?: 'refuse' | 'go on';
}

/** The sentence in the help of every such option. */
export const yesOption = ['-y, --yes', 'do it without asking'] as const;

/**
 * Asks the person at the terminal before something is destroyed.
 *
 * @param consequence a sentence that says what will be lost
 * @throws UsageError without a terminal; CommandError when the reply is not yes
 */
export async function confirm(
	consequence: string,
	{ yes = false, unattended = 'refuse' }: ConfirmOptions,
): Promise<void> {
	if (yes) return;
	const { stdin, stderr } = streams();
	if (!stdin.isTTY || !stderr.isTTY) {
		if (unattended === 'go on') return;
		throw new UsageError(`${consequence} Nobody can be asked here: say --yes to do it.`);
	}
	const terminal = createInterface({ input: stdin, output: stderr });
	try {
		const answer = await terminal.question(escapeControls(`${consequence} Go on? [y/N] `));
		if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError('Nothing was done.');
	} finally {
		terminal.close();
	}
}
