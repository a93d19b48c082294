import type { Node } from './tree.js';

/**
 * The script for bash, which zsh also runs. It contains every word, so that Tab starts no program, and
 * it never evaluates typed text.
 */
export function bashScript(name: string, nodes: readonly Node[]): string {
	const paths = nodes.flatMap(({ path }) => (path === '' ? [] : [quote(path)]));
	const values = nodes.flatMap(({ path, options }) =>
		options
			.filter(({ takesValue }) => takesValue)
			.map(({ flag, choices }) => `\t\t${quote(`${path} ${flag}`.trim())}) words=${quote(choices.join(' '))} ;;`),
	);
	const flags = nodes.flatMap(({ path, options }) =>
		branch(
			path,
			options.map(({ flag }) => flag),
		),
	);
	const words = nodes.flatMap(({ path, subcommands, choices }) =>
		branch(path, [...subcommands.map((below) => below.name), ...choices]),
	);
	return `_${name}() {
	local cur=\${COMP_WORDS[COMP_CWORD]} path= words= i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "\${path:+$path }\${COMP_WORDS[i]}" in
			${paths.join('|')}) path="\${path:+$path }\${COMP_WORDS[i]}" ;;
		esac
	done
	case "\${path:+$path }\${COMP_WORDS[COMP_CWORD-1]}" in
${values.join('\n')}
		*)
			if [[ $cur == -* ]]; then
				case "$path" in
${flags.join('\n')}
				esac
			else
				case "$path" in
${words.join('\n')}
				esac
			fi
			;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _${name} ${name}
`;
}

/** Enables completion scripts for bash in zsh. */
export function zshScript(name: string, nodes: readonly Node[]): string {
	const ready = '(( $+functions[compdef] )) || { autoload -U +X compinit && compinit -i; }';
	return `${ready}\nautoload -U +X bashcompinit && bashcompinit\n${bashScript(name, nodes)}`;
}

const branch = (path: string, words: string[]) =>
	words.length === 0 ? [] : [`\t\t\t\t\t${quote(path)}) words=${quote(words.join(' '))} ;;`];

const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
