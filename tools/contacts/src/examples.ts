/** The end of a command's help: lines to be pasted. */
export function examples(...lines: string[]): string {
	return `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`;
}
