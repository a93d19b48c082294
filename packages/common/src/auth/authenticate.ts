import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { Problem } from '../http/problems.js';
import { malformedParameters } from '../http/strict-parsing.js';
import { maxKeyLength } from './api-key.js';
import type { KeyRing, Project } from './key-ring.js';

declare module 'fastify' {
	interface FastifyRequest {
		/** The caller. It is set for every request that passed authentication. */
		project: Project;
	}
}

interface AuthenticateOptions {
	keyRing: KeyRing;
	/** Called before a request is rejected. An error that it throws replaces the 401. */
	onFailure?: (request: FastifyRequest) => void;
}

/**
 * Rejects requests without valid credentials in the query string, in the scope that registers it. It runs before the body
 * is read and any other parameter is checked. The response is the same for all kinds of wrong credentials.
 */
export const authenticate = fp<AuthenticateOptions>(async (scope, { keyRing, onFailure = () => undefined }) => {
	if (!scope.hasRequestDecorator('project')) scope.decorateRequest('project');
	scope.addHook('onRequest', (request, _reply, done) => {
		const project = findProject(request, keyRing);
		if (project === undefined) {
			onFailure(request);
			throw new Problem('unauthorized');
		}
		request.project = project;
		done();
	});
});

function findProject(request: FastifyRequest, keyRing: KeyRing): Project | undefined {
	// A repeated parameter arrives as an array.
	const { project, api_key: key } = request.query as Record<string, unknown>;
	if (typeof project !== 'string' || typeof key !== 'string') return undefined;
	if (malformedParameters(request.url).some((name) => name === 'project' || name === 'api_key')) return undefined;
	if (project === '' || key === '' || key.length > maxKeyLength) return undefined;
	return keyRing.find(project, key);
}
