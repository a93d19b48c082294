import { fileURLToPath } from 'node:url';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { type ProcessOptions, type RunningProcess, startProcess } from './process.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** The built programs, by the name under which they log. */
const programs = {
	'personal-contacts': 'services/personal-contacts/dist/main.js',
	'company-contacts': 'services/company-contacts/dist/main.js',
	'crm-sync': 'workers/crm-sync/dist/main.js',
};

export type ProgramName = ServiceName | 'crm-sync';

export interface LogLine {
	msg: string;
	[field: string]: unknown;
}

export interface ServiceProcess extends RunningProcess {
	/** The lines of its log so far. */
	log(): LogLine[];
	/** Its URL, as soon as it listens. Rejects if it ends before that. */
	listening(): Promise<string>;
}

export interface RunningService extends ServiceProcess {
	url: string;
}

/** Starts a built service as its users run it, with only this environment. Default port: a free one. */
export function spawnService(
	name: ProgramName,
	env: Record<string, string>,
	options: ProcessOptions = {},
): ServiceProcess {
	const service = startProcess(process.execPath, [`${root}/${programs[name]}`], {
		...options,
		env: { PORT: '0', ...env },
		ipc: true,
	});
	return {
		...service,
		get hasExited() {
			return service.hasExited;
		},
		log: () =>
			service
				.stdout()
				.split('\n')
				.slice(0, -1)
				.map((line) => JSON.parse(line) as LogLine),
		listening: async () => (await service.waitForLine(/Server listening at (http:[^"]+)"/))[1] as string,
	};
}

/** The same, but waits until it listens. */
export async function startService(name: ProgramName, env: Record<string, string>): Promise<RunningService> {
	const service = spawnService(name, env);
	const url = await service.listening();
	return Object.assign(service, { url });
}
