/** How the connections for statements are used. */
export interface ConnectionUse {
	/** The most connections that are open at once. */
	readonly limit: number;
	readonly inUse: number;
	/** Statements that wait for one. */
	readonly waiting: number;
}

/** A statement's turn on a connection. */
export interface Turn {
	/** When it got a connection, in milliseconds that never go back; undefined: it still waits for one. */
	begun: number | undefined;
}

/**
 * Who has a connection and who waits for one. The client does not tell, but it has one statement at a time on a connection
 * and gives connections away in the order of asking, so counting tells.
 */
export class ConnectionTurns implements ConnectionUse {
	#inUse = 0;
	readonly #queue: Turn[] = [];

	constructor(readonly limit: number) {}

	get inUse(): number {
		return this.#inUse;
	}

	get waiting(): number {
		return this.#queue.length;
	}

	begin(now: number): Turn {
		if (this.#inUse === this.limit) {
			const turn: Turn = { begun: undefined };
			this.#queue.push(turn);
			return turn;
		}
		this.#inUse++;
		return { begun: now };
	}

	/** Its connection goes to whoever waits longest. */
	end(turn: Turn, now: number): void {
		if (turn.begun === undefined) {
			this.#queue.splice(this.#queue.indexOf(turn), 1);
			return;
		}
		const next = this.#queue.shift();
		if (next === undefined) this.#inUse--;
		else next.begun = now;
	}
}
