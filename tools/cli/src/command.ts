import { Command as CommanderCommand } from 'commander';
import { wrap } from './output.js';

/** A command of the program, with what the help of each command has at its end. */
export class Command extends CommanderCommand {
	override createCommand(name?: string): Command {
		return new Command(name);
	}

	/** Paragraphs behind the options. */
	notes(...paragraphs: string[]): this {
		return this.addHelpText('after', paragraphs.map((text) => `\n${wrap(text, 80)}`).join('\n'));
	}

	/** Lines that can be pasted. */
	examples(...lines: string[]): this {
		return this.addHelpText('after', `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`);
	}
}
