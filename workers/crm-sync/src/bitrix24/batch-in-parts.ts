import { Bitrix24Error } from './errors.js';
import type { Command, Outcome, RestClient } from './rest-client.js';

/** So many requests fail before the first one succeeds only if the portal fails, and not some of its records. */
const maxFailed = 8;

/**
 * Sends commands that each concern one record, in one request. A record can make the whole request fail: the portal's program
 * breaks off at it, or takes too long. The commands are then sent in smaller and smaller parts, the largest ones first. A command
 * that fails alone has the error as its outcome.
 *
 * @throws Bitrix24Error if no part succeeds, or for an error that is not temporary
 */
export async function batchInParts(client: Pick<RestClient, 'batch'>, commands: Command[]): Promise<Outcome[]> {
	const outcomes = new Map<Command, Outcome>();
	const parts = [commands];
	const errors: Bitrix24Error[] = [];
	let hasSucceeded = false;
	for (const part of parts) {
		try {
			const results = await client.batch(part);
			for (const [index, command] of part.entries()) outcomes.set(command, results[index] as Outcome);
			hasSucceeded = true;
		} catch (error) {
			if (!(error instanceof Bitrix24Error) || error.kind !== 'retry') throw error;
			errors.push(error);
			if (!hasSucceeded && errors.length === maxFailed) throw error;
			const middle = part.length >> 1;
			if (middle > 0) parts.push(part.slice(0, middle), part.slice(middle));
			else for (const command of part) outcomes.set(command, error);
		}
	}
	for (const error of errors) if (!hasSucceeded) throw error;
	return commands.map((command) => outcomes.get(command) as Outcome);
}
