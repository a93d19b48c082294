import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, get as requestPlain } from 'node:http';
import { get } from 'node:https';
import { join } from 'node:path';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { startNginx } from '@contacts/testing/nginx.js';
import { freePort } from '@contacts/testing/ports.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, onTestFinished, test } from 'vitest';

async function textOf(response: IncomingMessage): Promise<string> {
	let text = '';
	for await (const chunk of response.setEncoding('utf8')) text += chunk;
	return text;
}

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

	const encrypted = await new Promise<IncomingMessage>((resolve, reject) =>
		get(
			{ host: '127.0.0.1', port, path: '/nothing', servername: 'localhost', ca: readFileSync(certificate) },
			resolve,
		).on('error', reject),
	);
	expect(JSON.parse(await textOf(encrypted))).toMatchObject({ status: 404, code: 'not_found' });
	expect(encrypted.headers['strict-transport-security']).toBe('max-age=31536000');

	const plain = await new Promise<IncomingMessage>((resolve, reject) =>
		requestPlain({ host: '127.0.0.1', port, path: '/nothing' }, resolve).on('error', reject),
	);
	expect(JSON.parse(await textOf(plain))).toMatchObject({ status: 400 });
});
