import { readFileSync } from 'node:fs';

export interface GatewayOptions {
	/** Address of the name server that resolves replicas. */
	resolver?: string;
	connectionsPerClient?: number;
}

/**
 * The gateway's template for `startNginx`, filled in as in the container, except for the log files.
 *
 * @param companyContacts host and port of company-contacts, in nginx's format
 */
export function gatewayConfig(companyContacts: string, options: GatewayOptions = {}): string {
	const values: Record<string, string> = {
		GATEWAY_PORT: '127.0.0.1:PORT',
		GATEWAY_RESOLVER: options.resolver ?? '127.0.0.1',
		GATEWAY_CONNECTIONS_PER_CLIENT: String(options.connectionsPerClient ?? 50),
		COMPANY_CONTACTS_ADDRESS: companyContacts,
		BITRIX24_EVENTS_ADDRESS: '',
	};
	return readFileSync(new URL('../../../gateway/default.conf.template', import.meta.url), 'utf8')
		.replaceAll(/\$\{([A-Z0-9_]+)\}/g, (whole, name: string) => values[name] ?? whole)
		.replaceAll('/tmp/nginx-', 'FOLDER/')
		.replaceAll('/dev/stdout', 'ACCESS_LOG');
}
