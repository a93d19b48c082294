import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { maxKeyLength } from '../auth/api-key.js';
import type { KeyRing } from '../auth/key-ring.js';
import type { Project, RejectionReason } from '../auth/key-ring.sql.js';
import { type Deadline, startDeadline } from '../database/deadline.js';
import { minWriteMs } from '../database/expiring-write.js';
import type { DatabaseState, StatePoll } from '../database/state-poll.js';
import type { Heartbeat } from './heartbeat.js';
import { Problem } from './problems.js';
import { malformed } from './query.js';

declare module 'fastify' {
	interface FastifyRequest {
		/** The caller. It is set for every request that passed authentication. */
		project: Project;
		/**
		 * When it must have its response. The time counts since the request was complete and its parameters were checked, and
		 * `searchedMs` counts too.
		 */
		deadline: Deadline;
		/** For how long its key was searched for. */
		searchedMs: number;
		/**
		 * The state of the database against which its key was checked, confirmed at most a second before. What is served from memory must
		 * belong to this state. Nothing waits between this check and the route.
		 */
		state: DatabaseState;
	}
}

interface AuthenticateOptions {
	/** It watches the keys. */
	poll: StatePoll;
	keyRing: KeyRing;
	/** The maximum time until the response, in milliseconds. */
	deadlineMs: number;
	/** Of a scope whose requests write: it refuses a request that may have waited in a socket while the process stood still. */
	heartbeat?: Heartbeat;
	/** Called before a request is rejected. An error that it throws replaces the 401. */
	onFailure?: (request: FastifyRequest) => void;
}

/**
 * Rejects requests without valid credentials in the query string, in the scope that registers it. It runs before the body
 * is read and any other parameter is checked. The response is the same for all kinds of wrong credentials. Only the log has
 * the reason.
 */
export const authenticate = fp<AuthenticateOptions>(
	async (scope, { poll, keyRing, deadlineMs, heartbeat, onFailure = () => undefined }) => {
		scope.decorateRequest('project');
		scope.decorateRequest('deadline');
		scope.decorateRequest('searchedMs', 0);
		scope.decorateRequest('state');
		function check(request: FastifyRequest): void {
			const project = findProject(request, keyRing);
			if (project === undefined) {
				onFailure(request);
				throw unauthorized(request, keyRing);
			}
			request.project = project;
		}
		scope.addHook('onRequest', (request, _reply, done) => {
			// A key that is not known may be new: after the process stood still, its keys are too old to refuse one.
			if (poll.confirmed === undefined && isNotKnown(request, keyRing)) {
				const begun = performance.now();
				poll
					.confirm(maxConfirmMs)
					.then(() => {
						request.searchedMs = performance.now() - begun;
						check(request);
					})
					.then(() => done(), done);
				return;
			}
			check(request);
			done();
		});
		// The first request of a connection may have waited in the queue of a busy process, and Linux delivers it even after its caller
		// has reset the connection. Node.js 20 sees the reset in the same turn of the event loop, 24 in the next one.
		const used = new WeakSet<Socket>();
		if (heartbeat !== undefined)
			scope.addHook('preHandler', ({ raw: { socket } }, _reply, done) => {
				if (used.has(socket)) return done();
				used.add(socket);
				const end = (isReset: boolean) => done(isReset ? new Problem('overloaded', { reason: 'given_up' }) : undefined);
				setImmediate(() => {
					if (socket.destroyed) end(true);
					else setImmediate(() => end(Boolean(socket.errored)));
				});
			});
		// Again: a body may take seconds to arrive, and the key may have been revoked meanwhile. After the validation, so that a
		// request with a wrong parameter is refused also while the keys can't be confirmed.
		scope.addHook('preHandler', (request, _reply, done) => {
			const checkAgain = (state: DatabaseState) => {
				request.state = state;
				done(keyRing.isLive(request.project) ? undefined : unauthorized(request, keyRing));
			};
			const timeMs = deadlineMs - request.searchedMs - (heartbeat?.lateMs ?? 0);
			if (timeMs < minWriteMs) throw new Problem('overloaded', { reason: 'stood_still' });
			request.deadline = startDeadline(timeMs);
			const { confirmed } = poll;
			if (confirmed !== undefined) checkAgain(confirmed);
			else poll.confirm(Math.min(maxConfirmMs, timeMs)).then(checkAgain, done);
		});
	},
	{ name: 'authenticate', fastify: '5.x', dependencies: ['metrics', 'load-shedding'] },
);

/** The maximum time for which a request waits for its key to be confirmed. It leaves time for the response. */
const maxConfirmMs = 3000;

/**
 * The credentials of a request, or why they can't be valid, whatever keys there are. A repeated parameter is an array, and one with
 * malformed percent-encoding a symbol.
 */
function credentialsOf({ query }: FastifyRequest): { project: string; key: string } | RejectionReason {
	const { project, api_key: key } = query as Record<string, unknown>;
	if (project === undefined || key === undefined) return 'missing_credential';
	if (project === malformed || key === malformed) return 'malformed_credential';
	if (typeof project !== 'string' || typeof key !== 'string') return 'repeated_credential';
	if (project === '' || key === '') return 'empty_credential';
	return { project, key };
}

function findProject(request: FastifyRequest, keyRing: KeyRing): Project | undefined {
	const credentials = credentialsOf(request);
	if (typeof credentials === 'string' || credentials.key.length > maxKeyLength) return undefined;
	return keyRing.find(credentials.project, credentials.key);
}

/** Whether there may be a key with these credentials, which is not known. */
function isNotKnown(request: FastifyRequest, keyRing: KeyRing): boolean {
	return typeof credentialsOf(request) !== 'string' && findProject(request, keyRing) === undefined;
}

function unauthorized(request: FastifyRequest, keyRing: KeyRing): Problem {
	return new Problem('unauthorized', { reason: findReason(request, keyRing) });
}

function findReason(request: FastifyRequest, keyRing: KeyRing): RejectionReason {
	const credentials = credentialsOf(request);
	return typeof credentials === 'string' ? credentials : keyRing.findReason(credentials.project, credentials.key);
}
