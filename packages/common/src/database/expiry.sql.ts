/** The times that every write must carry, in milliseconds since the epoch by the database's clock. */
export interface Expiry {
	/**
	 * A lower bound of the time at which the statement is sent. A row that was written later may be newer, and must not be
	 * overwritten.
	 */
	sentAtLeast: number;
	/** The statement must not write after this time. */
	expires: number;
}

/**
 * How long a statement may wait for a locked row, in milliseconds: its connection waits with it. After that the server refuses the
 * statement, and it is sent again. With 50 ms, 300 locked chats kept all ten connections busy.
 */
const maxLockWaitMs = 10;

// Parts of a statement, as text. The times are its parameters, such as `$1`.

/**
 * Ends the wait for a locked row at the expiry. Evaluate it before the statement writes: a row that is new is not compared with the
 * expiry again after it has waited for another transaction.
 */
export const lockTimeoutUntil = (expires: string) => `
	set_config('lock_timeout',
		least(${maxLockWaitMs}, greatest(1, ceil(${expires}::float8 - extract(epoch from clock_timestamp()) * 1000)))::int::text, true)`;

/** Whether the statement may still write. It must be checked while the row is locked. */
export const isOpen = (expires: string) => `clock_timestamp() < to_timestamp(${expires}::float8 / 1000)`;

/**
 * Whether a stored row was written before the statement was sent. A row with a time in the future only means that the server's clock
 * was set back.
 *
 * @param writtenAt the column with the time of the last write
 */
export const mayReplace = (writtenAt: string, sentAtLeast: string) =>
	`(${writtenAt} <= to_timestamp(${sentAtLeast}::float8 / 1000) or ${writtenAt} > clock_timestamp())`;
