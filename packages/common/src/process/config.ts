import { isIP } from 'node:net';
import { type Static, type TObject, type TString, Type } from '@sinclair/typebox';
import { Ajv } from 'ajv';
import { envSchema } from 'env-schema';
import { parseDatabaseUrl } from '../database/database-url.js';

/** Wrong configuration: a line for each variable, which names it and what is allowed, never its value. */
export class ConfigError extends Error {
	override name = 'ConfigError';
	constructor(readonly lines: string[]) {
		super(lines.join('\n'));
	}
}

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

const checks = {
	url: (protocols: string[], text: string) => URL.canParse(text) && protocols.includes(new URL(text).protocol),
	databaseUrl: (_: true, text: string) => parseDatabaseUrl(text) !== undefined,
	integer: ([min, max]: [number, number], text: string) =>
		/^[0-9]{1,15}$/.test(text) && Number(text) >= min && Number(text) <= max,
	addresses: (_: true, text: string) => text.split(',').every((part) => isAddressRange(part.trim())),
};

function isAddressRange(text: string): boolean {
	if (['loopback', 'linklocal', 'uniquelocal'].includes(text)) return true;
	const [address = '', bits, ...rest] = text.split('/');
	const version = isIP(address);
	if (version === 0 || rest.length > 0) return false;
	return bits === undefined || checks.integer([0, version === 4 ? 32 : 128], bits);
}

/** A variable that is a URL of one of these protocols, such as `redis:`. */
export function urlVariable(protocols: string[], allowed: string): TString {
	return Type.String({ url: protocols, allowed });
}

/** A variable that names a PostgreSQL database, on one or several hosts. */
export function databaseUrlVariable(): TString {
	return Type.String({
		databaseUrl: true,
		allowed:
			'a URL like postgres://user:password@host:5432/database, or with several hosts postgres://user:password@host1:5432,host2:5432/database?target_session_attrs=read-write',
	});
}

/** A variable that is an integer in decimal digits, both limits included. */
export function integerVariable(min: number, max: number, usual: number, meaning: string): TString {
	return Type.String({
		integer: [min, max],
		allowed: `an integer from ${min} to ${max}`,
		default: String(usual),
		description: meaning,
	});
}

/** The variables that every service reads. `port` is the default of PORT. */
export function serviceVariables(port: number) {
	return Type.Object({
		DATABASE_URL: databaseUrlVariable(),
		HOST: Type.String({ default: '127.0.0.1', allowed: 'an address or a host name to listen on' }),
		PORT: integerVariable(0, 65_535, port, 'TCP port to listen on; 0 takes any that is free'),
		LOG_LEVEL: Type.String({ enum: logLevels, default: 'info', allowed: `one of ${logLevels.join(', ')}` }),
		TRUST_PROXY: Type.Optional(
			Type.String({
				addresses: true,
				allowed: 'addresses or CIDR ranges of the proxies in front, separated by commas',
			}),
		),
		DATABASE_POOL_SIZE: integerVariable(1, 500, 10, 'the most database connections for requests'),
		SHUTDOWN_TIMEOUT_SECONDS: integerVariable(1, 3600, 10, 'how long a stop waits for the requests under way'),
	});
}

/** The ranges that TRUST_PROXY names. */
export function trustedProxies({ TRUST_PROXY: ranges }: { TRUST_PROXY?: string }): string[] {
	return ranges?.split(',').map((range) => range.trim()) ?? [];
}

export type ServiceVariables = Static<ReturnType<typeof serviceVariables>>;

/**
 * Checks the environment against a schema of string variables, and fills in the defaults. A variable that is set to nothing
 * counts as not set.
 *
 * @throws ConfigError
 */
export function readVariables<T extends TObject>(schema: T, environment: NodeJS.ProcessEnv): Static<T> {
	const ajv = new Ajv({ allErrors: true, useDefaults: true, keywords: ['allowed'] });
	for (const [keyword, validate] of Object.entries(checks))
		ajv.addKeyword({ keyword, type: 'string', validate, errors: false });
	const data = Object.fromEntries(
		Object.keys(schema.properties).flatMap((name) => (environment[name] ? [[name, environment[name]]] : [])),
	);
	try {
		return envSchema<Static<T>>({ schema: structuredClone(schema), data, env: false, ajv });
	} catch (error) {
		const { errors } = error as { errors?: { instancePath: string; params: Record<string, unknown> }[] };
		if (errors === undefined) throw error;
		const missing = errors.map(({ params }) => params.missingProperty).filter((name) => name !== undefined);
		const wrong = errors.map(({ instancePath }) => instancePath.slice(1)).filter((name) => name !== '');
		const line = (name: unknown, state: string) =>
			`${name} ${state}: it must be ${schema.properties[String(name)]?.allowed}.`;
		throw new ConfigError([
			...new Set([...missing.map((name) => line(name, 'is not set')), ...wrong.map((name) => line(name, 'is wrong'))]),
		]);
	}
}
