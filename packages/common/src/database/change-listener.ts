import type postgres from 'postgres';
import { connectSingle } from './connect.js';
import type { ConnectionOptions } from './find-server.js';
import { timedOut, withDeadline } from './with-deadline.js';

interface ChangeListenerOptions {
	url: string;
	applicationName: string;
	/**
	 * Called when it listens again after a disconnection. The host name may now lead to another server. Connections that
	 * were opened meanwhile may lead to a standby, which never closes them and reports no changes.
	 */
	onReturn(): void;
}

/** The notifications of one channel. PostgreSQL sends each one at the commit of its change. */
export interface ChangeSubscription {
	/** Whether every change that was committed until now has been reported or is in transit. */
	readonly current: boolean;
	stop(): void;
}

interface ChangeListener {
	/** @param onChange called for each notification, and whenever one may have been missed */
	subscribe(channel: string, onChange: () => void): ChangeSubscription;
	close(): Promise<void>;
}

/** The interval between two checks of the connection, and the timeout of each check. */
const heartbeatMs = 1000;

/** The timeout for a connection and its first response. */
const listenTimeoutMs = 5000;

/** The first and the longest wait before an attempt to listen again. Each wait is twice as long as the one before. */
const minRetryMs = 50;
const maxRetryMs = 1000;

/**
 * Listens to all channels on one connection, and detects a disconnection. It notices a closed connection at once, and an
 * unresponsive one within two seconds. Until it listens again, data that was read before may be stale. It connects at the
 * first subscription.
 */
export function createChangeListener({ url, applicationName, onReturn }: ChangeListenerOptions): ChangeListener {
	const subscriptions = new Set<ChangeSubscription & { channel: string; onChange: () => void; current: boolean }>();
	let client: postgres.Sql | undefined;
	let closed = false;
	let failures = 0;
	let retry: NodeJS.Timeout | undefined;
	const timer = setInterval(beat, heartbeatMs);
	timer.unref();

	function open(): postgres.Sql {
		const mine = connectSingle(url, {
			connect_timeout: 2,
			backoff: () => 0.05,
			onclose: () => {
				if (mine === client) disconnected();
			},
			// Not in the published types.
			onnotify: (notified: string) => {
				for (const { channel, onChange } of subscriptions) if (channel === notified) onChange();
			},
			connection: { application_name: applicationName },
		} as ConnectionOptions);
		return mine;
	}

	async function listen(): Promise<void> {
		client ??= open();
		const mine = client;
		const added = [...subscriptions].filter(({ current }) => !current);
		try {
			const listening = mine.unsafe(added.map(({ channel }) => `listen "${channel}"`).join(';'));
			if ((await withDeadline(listening, listenTimeoutMs)) === timedOut) return replace(mine);
			if (mine !== client || closed) return;
			if (failures > 0) onReturn();
			failures = 0;
			// Notifications that were sent while nobody listened are lost.
			for (const subscription of added) {
				if (subscription.current) continue;
				subscription.current = true;
				subscription.onChange();
			}
		} catch {
			// This also happens on a standby, where LISTEN fails. The host name may soon lead to the primary, so a new
			// connection can succeed.
			replace(mine);
		}
	}

	function replace(failed: postgres.Sql): void {
		if (failed !== client || closed) return;
		client = open();
		void failed.end({ timeout: 0 }).catch(() => undefined);
		disconnected();
	}

	function disconnected(): void {
		for (const subscription of subscriptions) {
			if (!subscription.current) continue;
			subscription.current = false;
			subscription.onChange();
		}
		if (closed || retry !== undefined) return;
		retry = setTimeout(
			() => {
				retry = undefined;
				void listen();
			},
			Math.min(maxRetryMs, minRetryMs * 2 ** failures++),
		);
		retry.unref();
	}

	async function beat(): Promise<void> {
		const mine = client;
		if (mine === undefined || ![...subscriptions].some(({ current }) => current)) return;
		const response = await withDeadline(mine.unsafe('select 1'), heartbeatMs).catch(() => timedOut);
		if (response === timedOut) replace(mine);
	}

	return {
		subscribe(channel, onChange) {
			const subscription = {
				channel,
				onChange,
				current: false,
				stop() {
					subscriptions.delete(subscription);
					subscription.current = false;
				},
			};
			subscriptions.add(subscription);
			// While it is disconnected, the next attempt listens to this channel too.
			if (retry === undefined) void listen();
			return subscription;
		},
		async close() {
			closed = true;
			for (const subscription of subscriptions) subscription.current = false;
			clearInterval(timer);
			clearTimeout(retry);
			await client?.end({ timeout: 1 });
		},
	};
}
