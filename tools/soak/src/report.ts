import { drawChart } from './chart.js';
import type { Load } from './load.js';
import type { Sample, Use } from './samples.js';
import { type Point, secondHalf, slopePerHour } from './slope.js';

const services = [
	['company-contacts', (sample: Sample) => sample.company],
	['personal-contacts', (sample: Sample) => sample.personal],
] as const;

/** In a shorter run a slope says more about the start than about an hour. */
const tellingMinutes = 5;

/** An SVG document with everything that was sampled. */
export function chartOf(samples: readonly Sample[], heading: string): string {
	const line = (name: string, value: (sample: Sample) => number | undefined) => ({
		name,
		points: pointsOf(samples, value),
	});
	const lines = (what: string, value: (use: Use) => number | undefined) =>
		services.map(([name, of]) => line(`${name}${what}`, (sample) => value(of(sample))));
	return drawChart(heading, [
		{
			title: 'Memory, MiB',
			lines: [...lines(', resident', (use) => use.resident), ...lines(', heap', (use) => use.heap)],
		},
		{
			title: 'Handles',
			lines: [...lines(', file descriptors', (use) => use.descriptors), ...lines(', active', (use) => use.handles)],
		},
		{
			title: 'Connections',
			lines: [
				...lines(', sockets', (use) => use.sockets),
				...services.map(([name]) => line(`${name}, in PostgreSQL`, (sample) => sample.backends.get(name) ?? 0)),
			],
		},
		{
			title: 'Answers a second',
			lines: [line('as expected', ({ answers }) => answers), line('unexpected', ({ unexpected }) => unexpected)],
		},
	]);
}

/** The result as lines for people. */
export function verdictOn(samples: readonly Sample[], load: Load): string[] {
	const seconds = samples.at(-1)?.seconds ?? 0;
	const lines = [...load.counts].map(([kind, outcomes]) => {
		const counts = [...outcomes].map(([outcome, count]) => `${outcome}: ${count}`).join(', ');
		return `  ${kind.padEnd(30)} ${counts === '' ? 'none' : counts}`;
	});
	lines.push(
		`${load.answered} answers as expected in ${seconds.toFixed(0)} s (${(load.answered / seconds || 0).toFixed(0)} a second), ${load.unexpected} unexpected, ${load.heldBack} held back`,
	);
	for (const [name, of] of services) {
		const last = samples.at(-1);
		if (last === undefined) continue;
		const { resident, heap, descriptors, sockets } = of(last);
		const slope = (value: (use: Use) => number) =>
			slopePerHour(secondHalf(pointsOf(samples, (sample) => value(of(sample)))));
		lines.push(
			`${name}: ${resident.toFixed(0)} MiB resident, ${heap.toFixed(0)} MiB heap, ${descriptors ?? 'unknown'} descriptors, ${sockets} sockets, ${last.backends.get(name) ?? 0} connections in PostgreSQL`,
			`  over the second half: ${signed(slope((use) => use.resident))} MiB an hour resident, ${signed(slope((use) => use.heap))} MiB an hour heap`,
		);
	}
	if (seconds < tellingMinutes * 60)
		lines.push(`(in less than ${tellingMinutes} minutes, growth by the hour tells little)`);
	return lines;
}

function pointsOf(samples: readonly Sample[], value: (sample: Sample) => number | undefined): Point[] {
	return samples.flatMap((sample) => {
		const number = value(sample);
		return number === undefined ? [] : [[sample.seconds, number] as const];
	});
}

const signed = (value: number) => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(1)}`;
