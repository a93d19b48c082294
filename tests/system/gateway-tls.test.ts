import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { get as getPlain, type IncomingMessage } from 'node:http';
import { get as getEncrypted } from 'node:https';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { freePort } from '@contacts/local-postgres/ports.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { startNginx } from '@contacts/testing/nginx.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, onTestFinished, test } from 'vitest';

test('with operations/tls the gateway terminates TLS, and responds to plain HTTP on that port with a problem', async () => {
	const folder = await temporaryFolder();
	const [key, certificate, port] = [join(folder, 'privkey.pem'), join(folder, 'fullchain.pem'), await freePort()];
	execFileSync('openssl', [
		...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
		...['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-keyout', key, '-out', certificate],
	]);
	const listen = readFileSync(new URL('../../operations/tls/listen.conf', import.meta.url), 'utf8');
	writeFileSync(
		join(folder, 'listen.conf'),
		listen.replace('8443', `127.0.0.1:${port}`).replaceAll('/etc/nginx/certificates', folder),
	);
	const config = gatewayConfig('127.0.0.1:1').replace('/etc/nginx/tls', folder);
	const gateway = await startNginx(config);
	onTestFinished(() => gateway.stop());

	const ask = (get: typeof getPlain, more: object = {}) =>
		new Promise<IncomingMessage>((resolve, reject) => {
			get({ host: '127.0.0.1', port, path: '/nothing', ...more }, resolve).on('error', reject);
		});
	const encrypted = await ask(getEncrypted, { servername: 'localhost', ca: readFileSync(certificate) });
	expect(await json(encrypted)).toMatchObject({ status: 404, code: 'not_found' });
	expect(encrypted.headers['strict-transport-security']).toBe('max-age=31536000');
	expect(await json(await ask(getPlain))).toMatchObject({ status: 400 });
});
