import postgres from 'postgres';

export interface ChangeListenerOptions {
	url: string;
	applicationName: string;
	/** A channel that PostgreSQL notifies at the commit of each change. */
	channel: string;
	/** Called for each notification, and whenever one may have been missed. */
	onChange(): void;
}

export interface ChangeListener {
	/** Whether every change that was committed until now has been told, or is on its way. */
	readonly current: boolean;
	stop(): Promise<void>;
}

/** Milliseconds between two looks whether the connection still answers, and within which it must. */
const heartbeat = 1000;

/** Milliseconds between two attempts to listen again. */
const pause = 50;

/**
 * Listens on a connection of its own, and knows when it is deaf: a connection that was closed is noticed at once, one that
 * has merely gone silent within two seconds. While it is deaf, nothing that was read before may be taken for current.
 */
export function listenForChanges({ url, applicationName, channel, onChange }: ChangeListenerOptions): ChangeListener {
	let current = false;
	let stopped = false;
	let again: NodeJS.Timeout | undefined;
	let client = open();
	const timer = setInterval(beat, heartbeat);
	timer.unref();
	void listen();

	function open(): postgres.Sql {
		const mine: postgres.Sql = postgres(url, {
			max: 1,
			fetch_types: false,
			connect_timeout: 2,
			idle_timeout: 0,
			max_lifetime: null,
			backoff: () => 0.05,
			onnotice: () => undefined,
			onclose: () => {
				if (mine === client) deaf();
			},
			// Not in the published types.
			onnotify: (told: string) => {
				if (told === channel) onChange();
			},
			connection: { application_name: applicationName },
		} as postgres.Options<Record<string, postgres.PostgresType>>);
		return mine;
	}

	async function listen(): Promise<void> {
		const mine = client;
		try {
			await mine.unsafe(`listen "${channel}"`);
			if (mine !== client || stopped) return;
			current = true;
			// Whatever was told while nobody listened is lost.
			onChange();
		} catch {
			if (mine === client) deaf();
		}
	}

	function deaf(): void {
		if (current) {
			current = false;
			onChange();
		}
		if (stopped || again !== undefined) return;
		again = setTimeout(() => {
			again = undefined;
			void listen();
		}, pause);
		again.unref();
	}

	async function beat(): Promise<void> {
		if (!current) return;
		const mine = client;
		let late: NodeJS.Timeout | undefined;
		const timeout = new Promise<never>((_, reject) => {
			late = setTimeout(reject, heartbeat, new Error('silent'));
		});
		try {
			await Promise.race([mine.unsafe('select 1'), timeout]);
		} catch {
			if (mine !== client || stopped) return;
			client = open();
			void mine.end({ timeout: 0 }).catch(() => undefined);
			deaf();
		} finally {
			clearTimeout(late);
		}
	}

	return {
		get current() {
			return current;
		},
		async stop() {
			stopped = true;
			current = false;
			clearInterval(timer);
			clearTimeout(again);
			await client.end({ timeout: 1 });
		},
	};
}
