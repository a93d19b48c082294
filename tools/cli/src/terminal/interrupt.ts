import { InterruptedError } from '../errors.js';

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs long work that ends early when the process gets a signal. A second signal ends the process at once.
 *
 * @param work its AbortSignal has an InterruptedError as its reason
 */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
	const stop = new AbortController();
	const onSignal = (name: NodeJS.Signals) => stop.abort(new InterruptedError(name));
	for (const name of signals) process.once(name, onSignal);
	try {
		return await work(stop.signal);
	} finally {
		for (const name of signals) process.removeListener(name, onSignal);
	}
}
