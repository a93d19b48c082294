import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Sql } from '@contacts/common/database/client.js';
import { classify } from '@contacts/common/database/errors.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { type RoleUser, urlAs } from '@contacts/migrations/roles.js';
import { rolePassword, withConnection } from '@contacts/testing/database.js';
import { startPgBouncer } from '@contacts/testing/pgbouncer.js';
import { startReplicatedPostgres } from '@contacts/testing/replicated-postgres.js';
import { createRoles } from '@contacts/testing/roles.js';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';

/** What the replicas connect to: PostgreSQL; one with a synchronous standby, by one address or by two hosts; PgBouncer. */
export const kinds = ['direct', 'standby', 'pgbouncer'] as const;
export type Kind = (typeof kinds)[number];

/** Its URL for a replica, through a proxy for each host. */
interface Way {
	url: string;
	proxies: readonly TcpProxy[];
}

export interface DatabaseOfKind {
	/** A way for one replica. @param second whether it is the second one of its service */
	wayFor(user: RoleUser, second: boolean): Promise<Way>;
	/** Runs this as the superuser, and again while the database is away: it must bear that. */
	asOwner<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
	/** Stops PostgreSQL without a checkpoint, and starts it again after so many milliseconds. Not with a standby. */
	crash(forMs: number): Promise<void>;
	/** Silences the primary for ever, and promotes the standby. Once, with a standby. */
	failOver(): Promise<void>;
	/** Starts the former primary as a standby, and lets the one address lead to it until this is done. */
	leadToFormerPrimary(meanwhile: () => Promise<void>): Promise<void>;
	remove(): Promise<void>;
}

const at = (url: string, user: RoleUser) => urlAs(url, user, rolePassword);

/** Lets an address lead to another server. */
async function lead(proxy: TcpProxy, url: string): Promise<void> {
	proxy.cut();
	proxy.redirect(url);
	await proxy.restore();
}

const impossible = (what: string) => async () => {
	throw new Error(`a database of this kind can't ${what}`);
};

export async function startDatabase(kind: Kind): Promise<DatabaseOfKind> {
	return kind === 'standby' ? startWithStandby() : startAlone(kind);
}

/** Repeats this for as long as the server is away, or is not the primary. */
export async function again<T>(work: () => Promise<T>): Promise<T> {
	for (;;) {
		try {
			return await work();
		} catch (error) {
			if (classify(error).reason !== 'connection') throw error;
			await delay(20);
		}
	}
}

async function startAlone(kind: 'direct' | 'pgbouncer'): Promise<DatabaseOfKind> {
	const dataDirectory = join(await temporaryFolder(), 'postgres');
	// Connections that an unresponsive network has dropped stay open on the server for the whole test.
	const start = () => startLocalPostgres({ dataDirectory, password: 'test', settings: { max_connections: '400' } });
	let server: LocalPostgres = await start();
	const url = () => server.url('postgres');
	const asSuperuser = <T>(work: (sql: Sql) => Promise<T>) => withConnection(url(), work);
	await createRoles(url());
	await migrate(url());
	/** The server gets another port when it starts again. */
	const front = await startTcpProxy(url());
	const pgbouncer =
		kind === 'pgbouncer'
			? await startPgBouncer(
					front.through(at(url(), 'personal-contacts')),
					front.through(at(url(), 'company-contacts')),
				)
			: undefined;
	if (pgbouncer) {
		// What docs/deploy.md says, because PgBouncer ignores the parameter of the connection.
		await asSuperuser((sql) => sql`alter role personal_contacts_service set statement_timeout = '3s'`);
	}
	return {
		async wayFor(user) {
			const direct = front.through(at(url(), user));
			// The synchroniser needs PostgreSQL's own address.
			const target = user === 'crm-sync' ? direct : (pgbouncer?.through(direct) ?? direct);
			const proxy = await startTcpProxy(target);
			return { url: proxy.through(target), proxies: [proxy] };
		},
		asOwner: (work) => again(() => asSuperuser(work)),
		async crash(forMs) {
			front.refuse();
			const [postmaster] = readFileSync(join(dataDirectory, 'postmaster.pid'), 'utf8').split('\n');
			// An immediate shutdown, without a checkpoint or a message to clients.
			process.kill(Number(postmaster), 'SIGQUIT');
			await server.ended;
			await delay(forMs);
			server = await start();
			front.redirect(url());
			await again(() => asSuperuser((sql) => sql`select 1`));
			await front.restore();
		},
		failOver: impossible('fail over'),
		leadToFormerPrimary: impossible('fail over'),
		async remove() {
			await pgbouncer?.stop();
			front.close();
			await server.stop();
		},
	};
}

async function startWithStandby(): Promise<DatabaseOfKind> {
	const servers = await startReplicatedPostgres();
	let primary = servers.primaryUrl;
	/** The one address. */
	const front = await startTcpProxy(servers.primaryUrl());
	const toPrimary: TcpProxy[] = [];
	const toStandby: TcpProxy[] = [];
	return {
		async wayFor(user, second) {
			const url = at(servers.primaryUrl(), user);
			if (!second) {
				const proxy = await startTcpProxy(front.through(url));
				return { url: proxy.through(url), proxies: [proxy] };
			}
			const proxies = [await startTcpProxy(servers.primaryUrl()), await startTcpProxy(servers.standbyUrl())] as const;
			toPrimary.push(proxies[0]);
			toStandby.push(proxies[1]);
			const hosts = proxies.map((proxy) => new URL(proxy.through(url)).host);
			return { url: `${url.replace(/@[^/]+/, `@${hosts.join()}`)}?target_session_attrs=read-write`, proxies };
		},
		asOwner: (work) => again(() => servers.asSuperuser(primary(), work)),
		crash: impossible('crash'),
		async failOver() {
			for (const proxy of [front, ...toPrimary]) proxy.blackhole();
			await servers.promoteStandby();
			primary = servers.standbyUrl;
			// What waits there for the standby waits for ever.
			await withConnection(
				servers.primaryUrl(),
				(sql) => sql`
					select pg_terminate_backend(pid) from pg_stat_activity
					where backend_type = 'client backend' and pid <> pg_backend_pid()`,
			);
			front.redirect(servers.standbyUrl());
			await front.restore();
		},
		async leadToFormerPrimary(meanwhile) {
			await servers.demotePrimary();
			await Promise.all([front, ...toPrimary].map((proxy) => lead(proxy, servers.primaryUrl())));
			// Clients of two hosts look for one that is writable again, from the first one on.
			for (const proxy of toStandby) {
				proxy.cut();
				await proxy.restore();
			}
			await meanwhile();
			await lead(front, servers.standbyUrl());
		},
		async remove() {
			front.close();
			await servers.remove();
		},
	};
}
