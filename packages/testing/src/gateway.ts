import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

export interface GatewayOptions {
	/** Address of the name server that resolves the replicas of personal-contacts. */
	resolver?: string;
	/** Default: that of the compose file. */
	connectionsPerClient?: number;
	/** Default: that of the compose file. */
	requestsPerSecond?: number;
	/** Default: that of the compose file. */
	burst?: number;
	/** Host and port of the receiver of events. Default: none. */
	events?: string;
	/** The secret in the query of the handler's URL. Default: none. */
	eventsSecret?: string;
}

/** For tests whose clients at one address send more than the rate of an address. */
export const withoutRate = { requestsPerSecond: 100_000, burst: 100_000 };

/**
 * The public gateway's template for `startNginx`, filled in as in the container, except for the log files.
 *
 * @param companyContacts hosts and ports of the replicas of company-contacts, in nginx's format, or a whole group
 */
export function gatewayConfig(
	companyContacts: string | readonly string[] | { group: string },
	options: GatewayOptions = {},
): string {
	const defaultOf = (name: string) => new RegExp(`\\{${name}:-(\\d+)`).exec(read('docker-compose.yml'))?.[1];
	const group =
		typeof companyContacts === 'object' && 'group' in companyContacts
			? companyContacts.group
			: groupOf([companyContacts].flat());
	const server = filledIn('default.conf.template', options, {
		GATEWAY_CONNECTIONS_PER_CLIENT: String(options.connectionsPerClient ?? defaultOf('GATEWAY_CONNECTIONS_PER_CLIENT')),
		GATEWAY_REQUESTS_PER_SECOND: String(options.requestsPerSecond ?? defaultOf('GATEWAY_REQUESTS_PER_SECOND')),
		GATEWAY_BURST: String(options.burst ?? defaultOf('GATEWAY_BURST')),
		BITRIX24_EVENTS_ADDRESS: options.events ?? '',
		BITRIX24_EVENTS_SECRET: options.eventsSecret ?? '',
	});
	return `${group}\n${server}`;
}

/** The same gateway, which listens with operations/tls on this port too. The folder has the certificate. */
export function withTls(config: string, port: number, folder: string): string {
	const listen = read('operations/tls/listen.conf').replace('8443', `127.0.0.1:${port}`);
	writeFileSync(join(folder, 'listen.conf'), listen.replaceAll('/etc/nginx/certificates', folder));
	return config.replace('/etc/nginx/tls', folder);
}

/** The group of a machine, with these replicas. That of the containers has a name that only nginx 1.27.3 resolves. */
const groupOf = (replicas: readonly string[]) =>
	read('operations/systemd/upstream.conf').replace(/^( *server )\S+(.*\n)/m, (_, start: string, end: string) =>
		replicas.map((address) => start + address + end).join(''),
	);

/** The same for the bot's gateway. `personalContacts` is host and port of personal-contacts. */
export function botGatewayConfig(personalContacts: string, options: Pick<GatewayOptions, 'resolver'> = {}): string {
	return filledIn('bot.conf.template', options, { PERSONAL_CONTACTS_ADDRESS: personalContacts });
}

function filledIn(template: string, { resolver }: GatewayOptions, addresses: Record<string, string>): string {
	const values: Record<string, string> = {
		GATEWAY_PORT: '127.0.0.1:PORT',
		GATEWAY_RESOLVER: resolver ?? '127.0.0.1',
		...addresses,
	};
	return read(`gateway/${template}`)
		.replaceAll(/\$\{([A-Z0-9_]+)\}/g, (whole, name: string) => values[name] ?? whole)
		.replaceAll('/dev/stdout', 'ACCESS_LOG');
}
