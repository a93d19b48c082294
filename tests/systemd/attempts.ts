import type { Machine } from './machine.js';

/** What a user of the machine tried, and how that ended. */
interface Attempt {
	user: string;
	command: string;
	status: number;
	/** The last line of what it printed. */
	response: string;
}

/** Runs each command as each of these users, without the restrictions of a unit, which would only forbid more. */
export function attempt(machine: Machine, users: readonly string[], commands: readonly string[]): Attempt[] {
	const lines = users.flatMap((user) =>
		commands.map(
			(command) => `
				status=0
				response=$(setpriv --reuid=${user} --regid=$(id --group ${user}) --init-groups sh -c '${command}' 2>&1) || status=$?
				printf '%s\\n' "$status $(printf %s "$response" | tail -n 1 | tr -cd '[:print:]')"`,
		),
	);
	const results = machine.run(lines.join('\n')).split('\n');
	return users.flatMap((user, row) =>
		commands.map((command, column) => {
			const [, status, response = ''] = /^(\d+) ?(.*)$/.exec(results[row * commands.length + column] ?? '') ?? [];
			return { user, command, status: Number(status), response };
		}),
	);
}

/** Attempts to read from a process, or to send it a signal: SIGUSR1, for instance, opens the debugger of Node.js. */
export const attemptsOnProcess = (pid: string) => [
	`cat /proc/${pid}/environ`,
	`cat /proc/${pid}/maps`,
	`ls /proc/${pid}/fd`,
	`ls /proc/${pid}/root/`,
	`kill -0 ${pid}`,
];

/** Attempts to read these files, and to write into these folders. */
export const attemptsOnFiles = (files: readonly string[], folders: readonly string[]) => [
	...files.map((file) => `cat ${file}`),
	...folders.map((folder) => `touch ${folder}/by-another-user`),
];
