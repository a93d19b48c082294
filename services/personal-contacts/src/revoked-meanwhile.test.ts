import { once } from 'node:events';
import { connect } from 'node:net';
import { revokeKey } from '@contacts/common/auth/projects.sql.js';
import { addProject, startTestApp } from '@contacts/testing/app.js';
import { requestLine } from '@contacts/testing/request-line.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { service } from './app.js';

test('a key that is revoked while a body arrives is refused, and nothing is saved', async () => {
	await addProject(database.sql, 'bot', 'bot-key');
	const app = await startTestApp(service, database.url);
	onTestFinished(() => app.close());
	const socket = connect(Number(new URL(app.url).port), '127.0.0.1').setEncoding('latin1');
	onTestFinished(() => void socket.destroy());
	const body = '{"chat_id":1}';
	socket.write(
		`POST /api/personal_contacts?project=bot&api_key=bot-key HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n{`,
	);
	// A response to a later request shows that these bytes have reached the service.
	await (await app.fetch('/health/live')).text();
	const [key] = await database.sql<{ id: number }[]>`select id::float8 as id from api_keys`;
	await revokeKey(database.sql, Number(key?.id));
	await app.poll.refresh(4000);
	socket.write(body.slice(1));
	const [response] = await once(socket, 'data');
	expect(response).toMatch(/^HTTP\/1.1 401 .*"code":"unauthorized"/s);
	const id = /"request_id":"([^"]+)"/.exec(response)?.[1];
	expect(await requestLine(app, id)).toMatchObject({ reason: 'revoked_key' });
	expect(await database.sql`select from personal_contacts`).toHaveLength(0);
});
