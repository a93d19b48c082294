import { readFileSync } from 'node:fs';
import { get as getPlain, type IncomingMessage } from 'node:http';
import { get as getEncrypted } from 'node:https';
import { json } from 'node:stream/consumers';
import { freePort } from '@contacts/local-postgres/ports.js';
import { makeCertificate } from '@contacts/testing/certificate.js';
import { gatewayConfig, withTls } from '@contacts/testing/gateway.js';
import { startNginx } from '@contacts/testing/nginx.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, onTestFinished, test } from 'vitest';

test('with operations/tls the gateway terminates TLS, and responds to plain HTTP on that port with a problem', async () => {
	const folder = await temporaryFolder();
	const [{ certificate }, port] = [makeCertificate(folder), await freePort()];
	const gateway = await startNginx(withTls(gatewayConfig('127.0.0.1:1'), port, folder));
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
