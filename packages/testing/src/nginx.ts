import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '@contacts/local-postgres/server.js';
import { accepts } from './ports.js';
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

/**
 * An nginx with this text in its `http` block (Debian: nginx-light). `PORT`, `FOLDER` and `ACCESS_LOG` are placeholders.
 */
export async function startNginx(http: string): Promise<RunningNginx> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-nginx-'));
	const port = await freePort();
	const [accessLog, errorLog] = [join(folder, 'access.log'), join(folder, 'error.log')];
	mkdirSync(join(folder, 'html'));
	writeFileSync(join(folder, 'html', 'index.html'), 'ok');
	const filled = http.replaceAll('ACCESS_LOG', accessLog).replaceAll('FOLDER', folder).replaceAll('PORT', String(port));
	const config = `${process.getuid?.() === 0 ? 'user root;' : ''}
		daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log ${errorLog} notice;
		events { worker_connections 2048; }
		http { ${filled} }`;
	writeFileSync(join(folder, 'nginx.conf'), config);
	writeFileSync(errorLog, '');
	const nginx = startProcess('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', errorLog]);
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
