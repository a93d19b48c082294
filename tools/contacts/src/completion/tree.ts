import type { Command } from 'commander';

/** A command as the completion scripts need it. */
export interface Node {
	/** Its words after the program's name, such as `key create`; empty for the program itself. */
	path: string;
	subcommands: { name: string; description: string }[];
	options: { flag: string; description: string; choices: string[]; takesValue: boolean }[];
	/** The allowed values of its argument, where it has fixed ones. */
	choices: string[];
	takesFile: boolean;
}

/** Every command of the program, each before its subcommands. */
export function flatten(command: Command, path: string[] = []): Node[] {
	const help = command.createHelp();
	const subcommands = help.visibleCommands(command).filter((below) => below.name() !== 'help');
	const node: Node = {
		path: path.join(' '),
		subcommands: subcommands.map((below) => ({ name: below.name(), description: below.description() })),
		options: help.visibleOptions(command).map((option) => ({
			flag: option.long ?? option.flags,
			description: option.description,
			choices: option.argChoices ?? [],
			takesValue: option.required || option.optional,
		})),
		choices: command.registeredArguments.flatMap((argument) => argument.argChoices ?? []),
		takesFile: command.registeredArguments.some((argument) => argument.name() === 'file'),
	};
	return [node, ...subcommands.flatMap((below) => flatten(below, [...path, below.name()]))];
}
