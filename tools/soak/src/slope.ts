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
