import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accepts, freePort } from '@contacts/local-postgres/ports.js';
import { childrenOf, openBytes, residentMiB } from './proc.js';
import { type RunningProcess, startProcess } from './process.js';
import { waitUntil } from './wait-until.js';

export interface RunningNginx extends RunningProcess {
	url: string;
	/** The folder of its configuration, logs and temporary files. */
	folder: string;
	/** Its main error log. */
	errorLog(): string;
	accessLog(): string;
	/** The size of its temporary files, in bytes. */
	temporaryBytes(): number;
	/** Resident memory of its workers, in MiB. */
	memory(): number;
}

const gatewayFile = (name: string) => readFileSync(new URL(`../../../gateway/${name}`, import.meta.url), 'utf8');

/**
 * Writes what both gateways have in common into this folder, with this text in its `http` block.
 *
 * @returns the arguments of nginx, which then runs in the foreground and logs to `error.log` in this folder
 */
export function configureNginx(folder: string, http: string): string[] {
	mkdirSync(join(folder, 'conf.d'), { recursive: true });
	writeFileSync(join(folder, 'nginx.conf'), gatewayFile('nginx.conf').replaceAll('/tmp/nginx-', `${folder}/`));
	writeFileSync(join(folder, 'problems.conf'), gatewayFile('problems.conf'));
	writeFileSync(join(folder, 'conf.d', 'default.conf'), http);
	const errorLog = join(folder, 'error.log');
	writeFileSync(errorLog, '');
	const user = process.getuid?.() === 0 ? 'user root;' : '';
	const main = `${user} daemon off; pid ${folder}/nginx.pid; error_log ${errorLog} notice;`;
	return ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', errorLog, '-g', main];
}

/**
 * An nginx with the gateway's main configuration and this text in its `http` block (Debian: nginx-light). `PORT`, `FOLDER` and
 * `ACCESS_LOG` are placeholders.
 */
export async function startNginx(http: string): Promise<RunningNginx> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-nginx-'));
	const port = await freePort();
	const [accessLog, errorLog] = [join(folder, 'access.log'), join(folder, 'error.log')];
	mkdirSync(join(folder, 'html'));
	writeFileSync(join(folder, 'html', 'index.html'), 'ok');
	const filled = http.replaceAll('ACCESS_LOG', accessLog).replaceAll('FOLDER', folder).replaceAll('PORT', String(port));
	const nginx = startProcess('nginx', configureNginx(folder, filled));
	// The system accepts connections before a worker serves them.
	const isServing = async () => (await accepts(port)) && childrenOf(nginx.pid).length > 0;
	await waitUntil(isServing, { timeoutMs: 10_000, message: nginx.output });
	const { stop } = nginx;
	return Object.assign(nginx, {
		url: `http://127.0.0.1:${port}`,
		folder,
		errorLog: () => readFileSync(errorLog, 'utf8'),
		accessLog: () => readFileSync(accessLog, 'utf8'),
		temporaryBytes: () => childrenOf(nginx.pid).reduce((sum, pid) => sum + openBytes(pid, join(folder, 'proxy')), 0),
		memory: () => childrenOf(nginx.pid).reduce((sum, pid) => sum + residentMiB(pid), 0),
		async stop(signal: NodeJS.Signals = 'SIGQUIT') {
			await stop(signal);
			rmSync(folder, { recursive: true, force: true });
		},
	});
}
