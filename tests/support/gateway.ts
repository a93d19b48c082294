import { readFileSync } from 'node:fs';

export interface GatewayOptions {
	/** Host and port of company-contacts, as nginx reads them. */
	address: string;
	/** Address of the name server that replicas are found by. */
	resolver?: string;
	connectionsPerClient?: number;
}

/** The gateway's template as the container fills it in, but for where the logs go. */
export function gatewayConfig({ address, resolver = '127.0.0.1', connectionsPerClient = 50 }: GatewayOptions): string {
	return readFileSync(new URL('../../gateway/default.conf.template', import.meta.url), 'utf8')
		.replaceAll('${GATEWAY_PORT}', '127.0.0.1:PORT')
		.replaceAll('${GATEWAY_RESOLVER}', resolver)
		.replaceAll('${GATEWAY_CONNECTIONS_PER_CLIENT}', String(connectionsPerClient))
		.replaceAll('${COMPANY_CONTACTS_ADDRESS}', address)
		.replaceAll('${BITRIX24_EVENTS_ADDRESS}', '')
		.replaceAll('/tmp/nginx-', 'FOLDER/')
		.replaceAll('/dev/stdout', 'ACCESS_LOG')
		.replaceAll('/dev/stderr', 'ERROR_LOG');
}
