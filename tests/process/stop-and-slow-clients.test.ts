import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { startServiceProcess } from '@contacts/testing/service-process.js';
import type { ServiceProcess } from '@contacts/testing/services.js';
import { database as db, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';

test.beforeAll(async () => {
	await addProject(db.sql, 'good', 'good-key');
	// More than the buffers of both ends hold, so that the service sends the list only as the client reads it.
	await db.sql`
		insert into company_contacts (bitrix_id, perplexity_reason)
		select n, repeat('x', 1000) from generate_series(1, 30000) n`;
});

const keys = 'project=good&api_key=good-key';
const upsertHead = (length: number) =>
	`POST /api/personal_contacts?${keys} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
const listHead = `GET /api/company_contacts.list?${keys} HTTP/1.1\r\nHost: a\r\n\r\n`;

interface SlowClient {
	service: ServiceProcess;
	socket: Socket;
	/** Everything that the client received, once the service has closed the connection. */
	response: Promise<string>;
}

/** Starts a service and a client. SIGTERM comes when the client has sent this much of its request. */
async function stopMeanwhile(
	name: ServiceName,
	sent: string,
	environment: Record<string, string> = {},
	begun = async (_socket: Socket): Promise<unknown> => undefined,
): Promise<SlowClient> {
	const service = startServiceProcess(name, { DATABASE_URL: urlAs(db.url, name, rolePassword), ...environment });
	const { port } = new URL(await service.listening());
	const socket = connect({ port: Number(port), host: '127.0.0.1' });
	onTestFinished(() => void socket.destroy());
	let text = '';
	const response = new Promise<string>((resolve) => {
		socket.on('error', () => undefined).on('close', () => resolve(text));
	});
	socket.write(sent);
	await begun(socket);
	socket.setEncoding('latin1').on('data', (piece) => {
		text += piece;
	});
	// A response to a later request shows that these bytes have reached the service.
	await fetch(`http://127.0.0.1:${port}/health/live`);
	service.kill('SIGTERM');
	await expect.poll(() => service.log().map(({ msg }) => msg)).toContain('stopping');
	return { service, socket, response };
}

test.each([
	['half a body', `${upsertHead(13)}{"chat_`, 'id":1}'],
	['half a header', upsertHead(13).slice(0, 40), `${upsertHead(13).slice(40)}{"chat_id":2}`],
])(
	'SIGTERM after %s: the service still reads the rest, stores it and responds, and ends with exit 0',
	async (_, sent, rest) => {
		const [before] = await db.sql<{ count: number }[]>`select count(*)::int as count from personal_contacts`;
		const { service, socket, response } = await stopMeanwhile('personal-contacts', sent);
		socket.write(rest);
		expect(await response).toMatch(/^HTTP\/1.1 200 .*\r\nconnection: close\r\n.*\{"ok":"saved"\}$/is);
		expect(await service.exit).toBe(0);
		expect(await db.sql`select count(*)::int as count from personal_contacts`).toEqual([
			{ count: (before?.count ?? 0) + 1 },
		]);
	},
);

const paused = async (socket: Socket) => {
	await once(socket, 'readable');
	socket.pause();
};

test('a client that never reads its list delays the stop until SHUTDOWN_TIMEOUT_SECONDS, with exit 1', async () => {
	const { service, socket } = await stopMeanwhile(
		'company-contacts',
		listHead,
		{ SHUTDOWN_TIMEOUT_SECONDS: '1' },
		paused,
	);
	socket.pause();
	expect(await service.exit).toBe(1);
});
