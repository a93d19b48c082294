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

type Result = Omit<Finding, 'check'>;

/** Yields what it finds, and returns what is well when it has found nothing. */
export type Check = AsyncGenerator<Result, string>;

export const ok = (message: string): Result => ({ state: 'ok', message });
export const problem = (message: string, advice: string): Result => ({ state: 'problem', message, advice });
export const warning = (message: string, advice: string): Result => ({ state: 'warning', message, advice });
export const skipped = (message: string): Result => ({ state: 'skipped', message });

export async function findingsOf(name: string, check: Check): Promise<Finding[]> {
	const findings: Finding[] = [];
	for (;;) {
		const { done, value } = await check.next();
		if (!done) findings.push({ check: name, ...value });
		else return findings.length > 0 ? findings : [{ check: name, state: 'ok', message: value }];
	}
}
