import { isIP } from 'node:net';
import { type Static, type TObject, type TString, type TUnsafe, Type } from '@sinclair/typebox';
import { Ajv } from 'ajv';
import { databaseUrlForm, parseDatabaseUrl } from '../database/database-url.js';

/** Wrong configuration. The message has one line for each variable, with its name and what is allowed, but never its value. */
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
	accepts: (isAccepted: (text: string) => boolean, text: string) => isAccepted(text),
	addresses: (_: true, text: string) => text.split(',').every((part) => isAddressRange(part.trim())),
};

function isAddressRange(text: string): boolean {
	if (['loopback', 'linklocal', 'uniquelocal'].includes(text)) return true;
	const [address = '', bits, ...rest] = text.split('/');
	const version = isIP(address);
	if (version === 0 || rest.length > 0) return false;
	// Not 0: if every address is trusted, a client can choose its own.
	return bits === undefined || checks.integer([1, version === 4 ? 32 : 128], bits);
}

/** A variable that is a URL of one of these protocols, such as `redis:`. */
export function urlVariable(protocols: string[], allowed: string, description: string): TString {
	return Type.String({ url: protocols, allowed, description });
}

/** A variable that names a PostgreSQL database, on one or several hosts. */
export function databaseUrlVariable(description: string): TString {
	return Type.String({ databaseUrl: true, description, allowed: databaseUrlForm });
}

/** A variable that is an integer in decimal digits, within inclusive limits. It is parsed to a number. */
export function integerVariable(
	min: number,
	max: number,
	defaultValue: number,
	description: string,
): TUnsafe<number> & { default: string } {
	const options = { integer: [min, max], allowed: `an integer from ${min} to ${max}`, default: String(defaultValue) };
	return Type.Unsafe<number>({ type: 'string', ...options, description }) as ReturnType<typeof integerVariable>;
}

/** The variables that every service reads. `port` is the default of PORT. */
export function serviceVariables(port: number) {
	return Type.Object({
		DATABASE_URL: databaseUrlVariable(
			'the PostgreSQL database (15 or newer); with several hosts, the process finds the primary',
		),
		HOST: Type.String({
			default: '127.0.0.1',
			allowed: 'an address or a host name to listen on',
			description: 'where to listen',
		}),
		PORT: integerVariable(0, 65_535, port, 'TCP port to listen on; 0 picks a free one'),
		LOG_LEVEL: Type.String({
			enum: logLevels,
			default: 'info',
			allowed: `one of ${logLevels.join(', ')}`,
			description: 'the lowest level that is logged',
		}),
		TRUST_PROXY: Type.Optional(
			Type.Unsafe<string[]>({
				type: 'string',
				addresses: true,
				allowed: 'addresses or CIDR ranges of the proxies in front, separated by commas',
				description: 'proxies whose `X-Forwarded-For` is trusted',
			}),
		),
		DATABASE_POOL_SIZE: integerVariable(1, 500, 10, 'maximum number of database connections for requests'),
		SHUTDOWN_TIMEOUT_SECONDS: integerVariable(1, 3600, 10, 'how long a stopping process waits for requests in flight'),
	});
}

export type ServiceVariables = Static<ReturnType<typeof serviceVariables>>;

/**
 * Checks the environment against a schema of variables, and fills in the defaults. An empty variable counts as not set.
 *
 * @throws ConfigError
 */
export function readVariables<T extends TObject>(schema: T, environment: NodeJS.ProcessEnv): Static<T> {
	const ajv = new Ajv({ allErrors: true, useDefaults: true, keywords: ['allowed'] });
	for (const [keyword, validate] of Object.entries(checks))
		ajv.addKeyword({ keyword, type: 'string', validate, errors: false });
	const texts: Record<string, string> = {};
	for (const name of Object.keys(schema.properties)) if (environment[name]) texts[name] = environment[name];
	const validate = ajv.compile(schema);
	if (!validate(texts)) {
		const lines = (validate.errors ?? []).map(({ instancePath, params }) => {
			const name = instancePath.slice(1) || String(params.missingProperty);
			const state = instancePath === '' ? 'is not set' : 'is wrong';
			return `${name} ${state}: it must be ${schema.properties[name]?.allowed}.`;
		});
		throw new ConfigError([...new Set(lines)]);
	}
	const values = Object.entries(texts).map(([name, text]) => {
		const variable = schema.properties[name];
		if (variable?.integer) return [name, Number(text)];
		return [name, variable?.addresses ? text.split(',').map((address) => address.trim()) : text];
	});
	return Object.fromEntries(values) as Static<T>;
}

/**
 * Whether the standard variables of OpenTelemetry switch traces on.
 *
 * @throws ConfigError when one has an unsupported value
 */
export function readTracing(environment: NodeJS.ProcessEnv): boolean {
	const { OTEL_TRACES_EXPORTER: exporter, OTEL_SDK_DISABLED: disabled } = environment;
	if (disabled?.toLowerCase() === 'true' || exporter === 'none') return false;
	const endpoints = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'];
	if (!exporter && !endpoints.some((variable) => environment[variable])) return false;

	const isHttp = (text: string) => checks.url(['http:', 'https:'], text);
	const rules: [variable: string, isAccepted: (text: string) => boolean, allowed: string][] = [
		['OTEL_TRACES_EXPORTER', (text) => text === 'otlp', 'otlp or none'],
		['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', isHttp, 'a URL like http://collector:4318'],
		['OTEL_EXPORTER_OTLP_ENDPOINT', isHttp, 'a URL like http://collector:4318'],
		['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', (text) => text === 'http/protobuf', 'http/protobuf'],
		['OTEL_EXPORTER_OTLP_PROTOCOL', (text) => text === 'http/protobuf', 'http/protobuf'],
	];
	const wrong = rules.filter(([variable, isAccepted]) => environment[variable] && !isAccepted(environment[variable]));
	if (wrong.length > 0)
		throw new ConfigError(wrong.map(([variable, , allowed]) => `${variable} is wrong: it must be ${allowed}.`));
	return true;
}
