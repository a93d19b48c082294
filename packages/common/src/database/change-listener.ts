import type postgres from 'postgres';
import { timedOut, withDeadline } from '../process/with-deadline.js';
import { connect } from './connect.js';
import type { ConnectionOptions } from './find-server.js';

export interface ChangeListenerOptions {
	url: string;
	applicationName: string;
	/** A channel that PostgreSQL notifies at the commit of each change. */
	channel: string;
	/** Called for each notification, and whenever one may have been missed. */
	onChange(): void;
	/**
	 * Called before `onChange` when it listens again after it could not: what the name leads to may be another server now, and
	 * connections that were made meanwhile may be to a standby, which closes none of them and knows of no change.
	 */
	onReturn(): void;
}

export interface ChangeListener {
	/** Whether every change that was committed until now has been told, or is on its way. */
	readonly current: boolean;
	stop(): Promise<void>;
}

/** Milliseconds between two checks that the connection still responds, and within which it must. */
const heartbeatMs = 1000;

/** Milliseconds before the first attempt to listen again; each one after it waits twice as long, up to the second. */
const minRetryMs = 50;
const maxRetryMs = 1000;

/**
 * Listens on a connection of its own, and knows when it is disconnected: a connection that was closed is noticed at once, one
 * that does not respond within two seconds. Until it listens again, nothing that was read before may be taken for current.
 */
export function listenForChanges({
	url,
	applicationName,
	channel,
	onChange,
	onReturn,
}: ChangeListenerOptions): ChangeListener {
	let current = false;
	let stopped = false;
	let failures = 0;
	let retry: NodeJS.Timeout | undefined;
	let client = open();
	const timer = setInterval(beat, heartbeatMs);
	timer.unref();
	void listen();

	function open(): postgres.Sql {
		const mine = connect(url, {
			max: 1,
			fetch_types: false,
			connect_timeout: 2,
			idle_timeout: 0,
			max_lifetime: null,
			backoff: () => 0.05,
			onnotice: () => undefined,
			onclose: () => {
				if (mine === client) disconnected();
			},
			// Not in the published types.
			onnotify: (told: string) => {
				if (told === channel) onChange();
			},
			connection: { application_name: applicationName },
		} as ConnectionOptions);
		return mine;
	}

	async function listen(): Promise<void> {
		const mine = client;
		try {
			await mine.unsafe(`listen "${channel}"`);
			if (mine !== client || stopped) return;
			if (failures > 0) onReturn();
			failures = 0;
			current = true;
			// Whatever was notified while nobody listened is lost.
			onChange();
		} catch {
			// Of a standby too, which nobody can listen on: its name may soon lead to the primary, and another connection there.
			replace(mine);
		}
	}

	function replace(failed: postgres.Sql): void {
		if (failed !== client || stopped) return;
		client = open();
		void failed.end({ timeout: 0 }).catch(() => undefined);
		disconnected();
	}

	function disconnected(): void {
		if (current) {
			current = false;
			onChange();
		}
		if (stopped || retry !== undefined) return;
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
		if (!current) return;
		const mine = client;
		const response = await withDeadline(mine.unsafe('select 1'), heartbeatMs).catch(() => timedOut);
		if (response === timedOut) replace(mine);
	}

	return {
		get current() {
			return current;
		},
		async stop() {
			stopped = true;
			current = false;
			clearInterval(timer);
			clearTimeout(retry);
			await client.end({ timeout: 1 });
		},
	};
}
