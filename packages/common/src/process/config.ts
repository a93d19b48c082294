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

/**
 * Whether it is a URL of one of these protocols, such as `redis:`. A second @ is that of a password which is not encoded: its end would be shown as
 * the host.
 */
export const isUrl = (text: string, protocols: string[]) =>
	URL.canParse(text) && protocols.includes(new URL(text).protocol) && text.split('@').length <= 2;

const isInteger = (text: string, min: number, max: number) =>
	/^[0-9]{1,15}$/.test(text) && Number(text) >= min && Number(text) <= max;

const partsOf = (text: string) => text.split(',').map((part) => part.trim());

function isAddressRange(text: string): boolean {
	if (['loopback', 'linklocal', 'uniquelocal'].includes(text)) return true;
	const [address = '', bits, ...rest] = text.split('/');
	const version = isIP(address);
	if (version === 0 || rest.length > 0) return false;
	// Not 0: if every address is trusted, a client can choose its own.
	return bits === undefined || isInteger(bits, 1, version === 4 ? 32 : 128);
}

/** A variable that is a URL of one of these protocols, such as `redis:`. */
export function urlVariable(protocols: string[], allowed: string, description: string): TString {
	return Type.String({ accepts: (text: string) => isUrl(text, protocols), allowed, description });
}

/** A variable that names a PostgreSQL database, on one or several hosts. */
export function databaseUrlVariable(description: string): TString {
	const accepts = (text: string) => parseDatabaseUrl(text) !== undefined;
	return Type.String({ accepts, description, allowed: databaseUrlForm });
}

/** A variable that is an integer in decimal digits, within inclusive limits. It is parsed to a number. */
export function integerVariable(
	min: number,
	max: number,
	defaultValue: number,
	description: string,
): TUnsafe<number> & { default: string } {
	return Type.Unsafe<number>({
		type: 'string',
		accepts: (text: string) => isInteger(text, min, max),
		read: Number,
		allowed: `an integer from ${min} to ${max}`,
		default: String(defaultValue),
		description,
	}) as ReturnType<typeof integerVariable>;
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
				accepts: (text: string) => partsOf(text).every(isAddressRange),
				read: partsOf,
				allowed: 'addresses or CIDR ranges of the proxies in front, separated by commas',
				description: 'proxies whose `X-Forwarded-For` is trusted',
			}),
		),
		DATABASE_POOL_SIZE: integerVariable(1, 500, 10, 'maximum number of database connections for requests'),
		SHUTDOWN_TIMEOUT_SECONDS: integerVariable(1, 3600, 10, 'how long a stopping process waits for requests in flight'),
	});
}

export type ServiceVariables = Static<ReturnType<typeof serviceVariables>>;

/** The environment without white space around its values: files, and what makes secrets of files, often end with a line end. */
export function trimmed(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
	return Object.fromEntries(Object.entries(environment).map(([name, text]) => [name, text?.trim()]));
}

/**
 * Checks the environment against a schema of variables, and fills in the defaults. A variable that is empty, or white space, counts as
 * not set.
 * In the schema `accepts` checks a text, and `read` returns the value that it stands for.
 *
 * @throws ConfigError
 */
export function readVariables<T extends TObject>(schema: T, environment: NodeJS.ProcessEnv): Static<T> {
	const ajv = new Ajv({ allErrors: true, useDefaults: true, keywords: ['allowed', 'read'] });
	const validate = (accepts: (text: string) => boolean, text: string) => accepts(text);
	ajv.addKeyword({ keyword: 'accepts', type: 'string', validate, errors: false });
	const texts: Record<string, string> = {};
	for (const [name, text] of Object.entries(trimmed(environment)))
		if (Object.hasOwn(schema.properties, name) && text) texts[name] = text;
	const isValid = ajv.compile(schema);
	if (!isValid(texts)) {
		const lines = (isValid.errors ?? []).map(({ instancePath, params }) => {
			const name = instancePath.slice(1) || String(params.missingProperty);
			const state = instancePath === '' ? 'is not set' : 'is wrong';
			return `${name} ${state}: it must be ${schema.properties[name]?.allowed}.`;
		});
		throw new ConfigError([...new Set(lines)]);
	}
	return Object.fromEntries(
		Object.entries(texts).map(([name, text]) => [name, schema.properties[name]?.read?.(text) ?? text]),
	) as Static<T>;
}

/** Whether the standard variables of OpenTelemetry switch traces on. */
export function readTracing(environment: NodeJS.ProcessEnv): boolean {
	const { OTEL_TRACES_EXPORTER: exporter, OTEL_SDK_DISABLED: disabled } = environment;
	if (disabled?.toLowerCase() === 'true') return false;
	if (exporter) return exporter === 'otlp';
	return Boolean(environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || environment.OTEL_EXPORTER_OTLP_ENDPOINT);
}
