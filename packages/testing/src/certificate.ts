import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

/**
 * Makes a self-signed certificate in this folder, with the file names of operations/tls.
 *
 * @param name for whom it is, as subjectAltName spells it
 */
export function makeCertificate(
	folder: string,
	name = 'DNS:localhost',
	days = 2,
): { key: string; certificate: string } {
	const [key, certificate] = [join(folder, 'privkey.pem'), join(folder, 'fullchain.pem')];
	execFileSync(
		'openssl',
		[
			...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', String(days)],
			...['-subj', '/CN=test', '-addext', `subjectAltName=${name}`, '-keyout', key, '-out', certificate],
		],
		{ stdio: 'ignore' },
	);
	return { key, certificate };
}
