import { once } from 'node:events';
import { type AddressInfo, createServer, connect as openSocket } from 'node:net';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import { connect } from './connect.js';

// Several hosts all lead to the same server here. tests/faults finds the primary among two servers.

let host: string;

test.beforeAll(() => {
	({ host } = new URL(db.url));
});

/** The URL of the database, with these hosts instead. */
const urlOf = (hosts: string[]) => db.url.replace(/@[^/]+/, `@${hosts.join()}`);

/** Connects and returns the result of one statement. */
async function ask(url: string): Promise<unknown[]> {
	const sql = connect(url, { max: 1, fetch_types: false, connect_timeout: 2, onnotice: () => undefined });
	try {
		return [...(await sql`select 1 as one`)];
	} finally {
		await sql.end({ timeout: 1 });
	}
}

const works = [{ one: 1 }];

async function startProxy(): Promise<{ proxy: TcpProxy; at: string }> {
	const proxy = await startTcpProxy(db.url);
	onTestFinished(() => proxy.close());
	return { proxy, at: new URL(proxy.through(db.url)).host };
}

/** A port of 127.0.0.1 that nothing listens on. */
async function closedPort(): Promise<number> {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address() as AddressInfo;
	server.close();
	await once(server, 'close');
	return port;
}

test('user, password and database may contain any percent-encoded characters, with one host or several', async () => {
	const password = `@:/?#,%[] é'`;
	const [role, database] = [`a@b,c ${Date.now()}`, `d/e,f ${Date.now()}`];
	await db.sql`create role ${db.sql(role)} login password ${db.sql.unsafe(`'${password.replace("'", "''")}'`)}`;
	await db.sql`create database ${db.sql(database)}`;
	onTestFinished(async () => {
		await db.sql`drop database ${db.sql(database)} with (force)`;
		await db.sql`drop role ${db.sql(role)}`;
	});
	const [user, secret, name] = [role, password, database].map(encodeURIComponent);
	for (const hosts of [[host], [host, host]]) {
		expect(await ask(`postgres://${user}:${secret}@${hosts.join()}/${name}`)).toEqual(works);
	}
});

test('a host can be an IPv6 address', async () => {
	const server = createServer((client) => {
		const [hostname, port] = host.split(':');
		client.pipe(openSocket({ host: hostname, port: Number(port) })).pipe(client);
	}).listen(0, '::1');
	await once(server, 'listening');
	onTestFinished(() => void server.close());
	expect(await ask(urlOf([`[::1]:${(server.address() as AddressInfo).port}`]))).toEqual(works);
});

test('every connection has the same DateStyle and TimeZone, whatever the defaults of its role are', async () => {
	const role = `${new URL(db.url).pathname.slice(1)}_abroad`;
	await db.sql.unsafe(`
		create role ${role} login password 'abroad';
		alter role ${role} set DateStyle = 'SQL, DMY';
		alter role ${role} set TimeZone = 'Asia/Tokyo'`);
	onTestFinished(() => db.sql.unsafe(`drop role ${role}`).then(() => undefined));
	for (const hosts of [[host], [host, host]]) {
		const sql = connect(urlOf(hosts).replace(/\/\/[^@]+@/, `//${role}:abroad@`), { max: 1, fetch_types: false });
		onTestFinished(() => sql.end({ timeout: 0 }));
		expect(
			await sql`
			select '2024-03-01'::date::text as date, '2024-03-01T00:00:00Z'::timestamptz::text as time`,
		).toEqual([{ date: '2024-03-01', time: '2024-03-01 00:00:00+00' }]);
	}
});

describe('several hosts', () => {
	test('an unresponsive host and one that refuses connections delay nobody', async () => {
		const [unresponsive, working] = [await startProxy(), await startProxy()];
		unresponsive.proxy.blackhole();
		await ask(urlOf([unresponsive.at, `127.0.0.1:${await closedPort()}`, working.at]));
		// One that asked what it is, and one for the statements.
		expect(working.proxy.taken).toBe(2);
		expect(unresponsive.proxy.taken).toBe(1);
	});

	test('that are read-only are rejected by name', async () => {
		await expect(ask(`${urlOf([host, host])}?default_transaction_read_only=on`)).rejects.toMatchObject({
			code: 'NO_SUITABLE_SERVER',
			message: `none of its hosts is the primary: ${host} is read-only; ${host} is read-only`,
		});
	});

	test('of which none can be used: each is named with the reason, and the next attempt tries all of them again', async () => {
		const { proxy, at } = await startProxy();
		const closed = `127.0.0.1:${await closedPort()}`;
		const sql = connect(urlOf([at, closed]), { max: 1, fetch_types: false, backoff: () => 0 } as object);
		onTestFinished(() => sql.end({ timeout: 0 }));
		proxy.cut();
		await expect(sql`select 1`).rejects.toMatchObject({
			code: 'NO_SUITABLE_SERVER',
			message: `none of its hosts is the primary: ${at} (ECONNREFUSED); ${closed} (ECONNREFUSED)`,
		});
		await proxy.restore();
		expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
	});

	test('that all refuse the password: the error is that of the server', async () => {
		const url = urlOf([host, host]).replace(/\/\/[^@]+@/, '//postgres:wrong%2Fpassword@');
		await expect(ask(url)).rejects.toMatchObject({ code: '28P01' });
	});

	test('a client that was closed while it searched leaves no connection behind', async () => {
		const { proxy, at } = await startProxy();
		proxy.stall();
		const sql = connect(urlOf([at, at]), {
			max: 1,
			fetch_types: false,
			connection: { application_name: 'closed early' },
		});
		const failed = expect(sql`select 1`).rejects.toMatchObject({ code: 'CONNECTION_DESTROYED' });
		await expect.poll(() => proxy.taken).toBe(2);
		await sql.end({ timeout: 0 });
		await failed;
		await proxy.restore();
		// After this the search has ended as well, and what it would have led to is there.
		await ask(urlOf([at, at]));
		await expect
			.poll(() => db.sql`select pid from pg_stat_activity where application_name = 'closed early'`)
			.toEqual([]);
	});
});
