import { Command as CommanderCommand } from 'commander';

/** A command of the program, with what the help of each command has at its end. */
export class Command extends CommanderCommand {
	override createCommand(name?: string): Command {
		return new Command(name);
	}

	/** Lines that can be pasted. */
	examples(...lines: string[]): this {
		return this.addHelpText('after', `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`);
	}
}
