/** The examples at the end of a command's help, ready to paste. */
export function examples(...lines: string[]): string {
	return `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`;
}
