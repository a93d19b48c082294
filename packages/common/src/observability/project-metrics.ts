import type { FastifyInstance } from 'fastify';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { KeyRing } from '../auth/authenticate.js';
import type { Project } from '../auth/key-ring.sql.js';

/** Maximum number of projects with separate series. Each has a few series. All other projects share one label. */
const maxProjects = 200;

/** The label of all other projects. It is not a valid project code. */
const otherProjects = '(other)';

/** Statuses that clients usually get. Their counters begin at 0, so that `increase()` sees the first burst of a project too. */
const usualStatuses = [200, 304, 400, 429, 500, 503];

/** Counts the requests of each project, and records the time of the last one. */
export function measureProjects(server: FastifyInstance, registry: Registry, keyRing: KeyRing): void {
	const registers = [registry];
	const known = new Set<string>();
	const requests = new Counter({
		name: 'project_requests_total',
		help: 'Requests with valid credentials that got a response, by project: those with the status 429 were over its limit.',
		labelNames: ['project', 'status'],
		registers,
		collect() {
			const codes = new Set([...known, ...keyRing.projectCodes()]);
			// Where there are more, those that send requests get the series.
			if (codes.size > maxProjects) begin(otherProjects);
			else for (const code of codes) labelOf(code);
		},
	});
	const begin = (project: string) => {
		for (const status of usualStatuses) requests.inc({ project, status }, 0);
	};
	function labelOf(code: string): string {
		if (known.has(code)) return code;
		if (known.size >= maxProjects) return otherProjects;
		known.add(code);
		begin(code);
		return code;
	}
	/** Milliseconds since the epoch. A gauge for each request would cost a microsecond. */
	const lastRequests = new Map<string, number>();
	new Gauge({
		name: 'project_last_request_timestamp_seconds',
		help: 'When a project last sent a request to this process, as a Unix time.',
		labelNames: ['project'],
		registers,
		collect() {
			for (const [project, time] of lastRequests) this.set({ project }, time / 1000);
		},
	});
	server.addHook('onResponse', (request, reply, done) => {
		// Its type is never undefined, but it is set only after authentication.
		const { code } = (request.project as Project | undefined) ?? {};
		if (code !== undefined) {
			const project = labelOf(code);
			requests.inc({ project, status: reply.statusCode });
			lastRequests.set(project, Date.now());
		}
		done();
	});
}
