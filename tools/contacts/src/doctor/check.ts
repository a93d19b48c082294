/** What a check has found, and what to do where something is wrong. No secret is in it. */
export interface Finding {
	/** What was looked at, such as `database`. */
	check: string;
	/** `warning`: it works, but somebody should know. `skipped`: not set up, or not to be seen because of another problem. */
	state: 'ok' | 'warning' | 'problem' | 'skipped';
	message: string;
	/** What to do. */
	advice?: string;
}

/** The findings of one check, which it is made with. */
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

/** Milliseconds as seconds, for people. */
export const seconds = (milliseconds: number) => `${(Math.abs(milliseconds) / 1000).toFixed(1)} s`;
