import { readFileSync } from 'node:fs';

export interface GatewayOptions {
	/** Address of the name server that replicas are found by. */
	resolver?: string;
	connectionsPerClient?: number;
}

/**
 * The gateway's template as the container fills it in, but for where the logs go; for `startNginx`.
 *
 * @param companyContacts host and port of company-contacts, as nginx reads them
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
		.replaceAll('/dev/stdout', 'ACCESS_LOG')
		.replaceAll('/dev/stderr', 'ERROR_LOG');
}
