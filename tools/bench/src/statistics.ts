/** One figure over all rounds. */
export interface Figures {
	median: number;
	min: number;
	max: number;
	/** The values, in the order of the rounds. */
	rounds: number[];
}

/** @throws RangeError for no values */
export function figuresOf(rounds: readonly number[]): Figures {
	return { median: median(rounds), min: Math.min(...rounds), max: Math.max(...rounds), rounds: [...rounds] };
}

/** The middle value, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
	if (values.length === 0) throw new RangeError('there is no median of no values');
	const sorted = [...values].sort((a, b) => a - b);
	const middle = Math.floor(sorted.length / 2);
	const upper = sorted[middle] as number;
	return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2;
}

/**
 * Ours divided by the baseline, round by round. This compares measurements of the same seconds, so that a machine that
 * was slower for a while affects both.
 */
export function ratiosOf(ours: readonly number[], baseline: readonly number[]): Figures {
	if (ours.length !== baseline.length) throw new RangeError('there is a round that only one of both has measured');
	return figuresOf(ours.map((value, round) => value / (baseline[round] as number)));
}

/** The mean of the smallest quarter of the values, at least of one. */
export function cheapestQuarter(values: readonly number[]): number {
	if (values.length === 0) throw new RangeError('there is no quarter of no values');
	const least = [...values].sort((a, b) => a - b).slice(0, Math.ceil(values.length / 4));
	return least.reduce((sum, value) => sum + value, 0) / least.length;
}

/** The quantile (0 to 1) of the sorted values, by nearest rank. */
export function quantile(sorted: ArrayLike<number>, part: number): number {
	if (sorted.length === 0) throw new RangeError('there is no quantile of no values');
	return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] as number;
}

/** A value at a time in seconds. */
export type Point = readonly [seconds: number, value: number];

/** How much the values grow in an hour: the slope of their least-squares line. */
export function slopePerHour(points: readonly Point[]): number {
	const count = points.length;
	const meanTime = points.reduce((sum, [seconds]) => sum + seconds, 0) / count;
	const meanValue = points.reduce((sum, [, value]) => sum + value, 0) / count;
	let covariance = 0;
	let variance = 0;
	for (const [seconds, value] of points) {
		covariance += (seconds - meanTime) * (value - meanValue);
		variance += (seconds - meanTime) ** 2;
	}
	return variance === 0 ? 0 : (covariance / variance) * 3600;
}

/** The points of the second half of the time, when caches and pools are full. */
export function secondHalf(points: readonly Point[]): Point[] {
	const middle = ((points[0]?.[0] ?? 0) + (points.at(-1)?.[0] ?? 0)) / 2;
	return points.filter(([seconds]) => seconds >= middle);
}
