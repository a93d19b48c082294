import { type Finding, findingsOf } from './check.js';

/** The defaults of the compose file, for a machine that nobody else can reach. */
const defaultPassword = /local-only-[a-z]+/;

/** Whether this command's passwords are the public defaults of the repository. */
export function checkPasswords(environment: NodeJS.ProcessEnv): Finding[] {
	const { found, ok, warning } = findingsOf('passwords');
	const names = Object.keys(environment).filter((name) => /(_PASSWORD|^DATABASE_URL|^REDIS_URL)$/.test(name));
	const weak = names.filter((name) => defaultPassword.test(environment[name] ?? ''));
	if (weak.length === 0) ok('None of them is a default of the compose file.');
	else {
		warning(
			`Default passwords of the compose file are in use: ${weak.join(', ')}.`,
			'On a server, write a .env with "sh operations/new-env.sh" before the first start, or change them (docs/operators.md, "Keys").',
		);
	}
	return found;
}
