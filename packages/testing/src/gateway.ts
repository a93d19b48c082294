import { readFileSync } from 'node:fs';

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

export interface GatewayOptions {
	/** Address of the name server that resolves replicas. */
	resolver?: string;
	/** Default: that of the compose file. */
	connectionsPerClient?: number;
}

/**
 * The gateway's template for `startNginx`, filled in as in the container, except for the log files.
 *
 * @param companyContacts host and port of company-contacts, in nginx's format
 */
export function gatewayConfig(companyContacts: string, options: GatewayOptions = {}): string {
	const [, connectionsPerClient] = /GATEWAY_CONNECTIONS_PER_CLIENT:-(\d+)/.exec(read('docker-compose.yml')) ?? [];
	const values: Record<string, string> = {
		GATEWAY_PORT: '127.0.0.1:PORT',
		GATEWAY_RESOLVER: options.resolver ?? '127.0.0.1',
		GATEWAY_CONNECTIONS_PER_CLIENT: String(options.connectionsPerClient ?? connectionsPerClient),
		COMPANY_CONTACTS_ADDRESS: companyContacts,
		BITRIX24_EVENTS_ADDRESS: '',
	};
	return read('gateway/default.conf.template')
		.replaceAll(/\$\{([A-Z0-9_]+)\}/g, (whole, name: string) => values[name] ?? whole)
		.replaceAll('/tmp/nginx-', 'FOLDER/')
		.replaceAll('/dev/stdout', 'ACCESS_LOG');
}
