/** The result of a check, and what to do about a problem. It contains no secret. */
export interface Finding {
	/** What was checked, such as `database`. */
	check: string;
	/** `warning`: it works, but somebody should know. `skipped`: not set up. */
	state: 'ok' | 'warning' | 'problem' | 'skipped';
	message: string;
	/** What to do. */
	advice?: string;
}

/** Builds the findings of one check. */
export function findingsOf(check: string) {
	const found: Finding[] = [];
	const add = (state: Finding['state']) => (message: string, advice?: string) =>
		void found.push({ check, state, message, ...(advice === undefined ? {} : { advice }) });
	return {
		found,
		ok: add('ok'),
		skipped: add('skipped'),
		warning: add('warning') as (message: string, advice: string) => void,
		problem: add('problem') as (message: string, advice: string) => void,
	};
}
