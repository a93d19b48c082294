import type { Node } from './tree.js';

/** The script for fish, with the descriptions. */
export function fishScript(name: string, nodes: readonly Node[]): string {
	const paths = nodes.flatMap(({ path }) => (path === '' ? [] : [quote(path)]));
	const lines = nodes.flatMap(({ path, subcommands, options, choices, takesFile }) => {
		const at = `complete -c ${name} -n ${quote(`__${name}_at ${quote(path)}`)}`;
		return [
			...subcommands.map((below) => `${at} -a ${below.name} -d ${quote(below.description)}`),
			...choices.map((choice) => `${at} -a ${choice}`),
			...options.map((option) => {
				const value = option.takesValue ? ` -x -a ${quote(option.choices.join(' '))}` : '';
				return `${at} -l ${option.flag.replace(/^--/, '')}${value} -d ${quote(option.description)}`;
			}),
			...(takesFile ? [`${at} -F`] : []),
		];
	});
	return `function __${name}_at
	set -l path
	for word in (commandline -opc)[2..]
		contains -- "$path$word" ${paths.join(' ')}; and set path "$path$word "
	end
	test (string trim -- "$path") = "$argv[1]"
end
complete -c ${name} -f
${lines.join('\n')}
`;
}

/** In single quotes. Inside them fish interprets only quotes and backslashes. */
const quote = (text: string) => `'${text.replace(/[\\']/g, '\\$&')}'`;
