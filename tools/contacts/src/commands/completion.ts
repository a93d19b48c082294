import { Argument } from 'commander';
import type { Command } from '../command.js';
import { bashScript, zshScript } from '../completion/bash.js';
import { fishScript } from '../completion/fish.js';
import { flatten } from '../completion/tree.js';
import { printScript } from '../output.js';

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript };

export function addCompletionCommand(program: Command): void {
	program
		.command('completion')
		.addArgument(new Argument('<shell>').choices(Object.keys(scripts)))
		.description('print a script that lets a shell complete commands and options')
		.examples('source <(contacts completion bash)', 'contacts completion fish | source')
		.action((shell: keyof typeof scripts) => {
			printScript(scripts[shell](program.name(), flatten(program)));
		});
}
