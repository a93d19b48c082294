import { drawPanels } from '@contacts/testing/chart.js';
import type { ServiceName } from '../bench.js';
import { type Point, secondHalf, slopePerHour } from '../statistics.js';
import { align } from '../table.js';
import type { SoakLoad } from './load.js';

/** What one service used at one moment. */
export interface Use {
	/** MiB. */
	resident: number;
	/** MiB of JavaScript's heap. */
	heap: number;
	/** Open file descriptors. Undefined where the system does not report them. */
	descriptors: number | undefined;
	/** Handles that the event loop watches. */
	handles: number;
	/** TCP connections, of clients and to the database. */
	sockets: number;
	/** Connections of PostgreSQL. */
	backends: number;
}

export interface SoakSample {
	/** Since the start of the run. */
	seconds: number;
	uses: Record<ServiceName, Use>;
	/** Responses per second, since the previous sample. */
	expected: number;
	unexpected: number;
}

export const services: ServiceName[] = ['company-contacts', 'personal-contacts'];

/** In a shorter run a slope says more about the start than about an hour. */
const minTellingMinutes = 5;

/** The panels of the chart, with the names of their lines. */
const panels: Record<string, Partial<Record<keyof Use, string>>> = {
	'Memory, MiB': { resident: 'resident', heap: 'heap' },
	Handles: { descriptors: 'file descriptors', handles: 'active' },
	Connections: { sockets: 'sockets', backends: 'in PostgreSQL' },
};

/** An SVG document with everything that was sampled. */
export function chartOf(samples: readonly SoakSample[], heading: string): string {
	return drawPanels(heading, [
		...Object.entries(panels).map(([title, lines]) => ({
			title,
			unit: undefined,
			series: Object.entries(lines).flatMap(([field, name]) =>
				services.map((service) => ({
					name: `${service}, ${name}`,
					points: pointsOf(samples, service, field as keyof Use),
				})),
			),
		})),
		{
			title: 'Responses a second',
			unit: undefined,
			series: (['expected', 'unexpected'] as const).map((name) => ({
				name,
				points: samples.map((sample) => [sample.seconds, sample[name]] as const),
			})),
		},
	]);
}

/** The result as tables for people. */
export function soakTables(samples: readonly SoakSample[], load: SoakLoad): string {
	const last = samples.at(-1);
	const seconds = last?.seconds ?? 0;
	const outcomes = [...load.counts].map(([kind, counts]) => [
		kind,
		[...counts].map(([outcome, count]) => `${outcome}: ${count}`).join(', ') || 'none',
	]);
	const rowOf = (service: ServiceName, { descriptors, sockets, backends, ...use }: Use) => {
		const memory = (['resident', 'heap'] as const).flatMap((field) => {
			const growth = slopePerHour(secondHalf(pointsOf(samples, service, field)));
			return [`${use[field].toFixed(0)} MiB`, `${growth < 0 ? '−' : '+'}${Math.abs(growth).toFixed(1)} MiB/h`];
		});
		return [service, ...memory, String(descriptors ?? 'unknown'), String(sockets), String(backends)];
	};
	const rows = last === undefined ? [] : services.map((service) => rowOf(service, last.uses[service]));
	const head = ['service', 'resident', '', 'heap', '', 'descriptors', 'sockets', 'in PostgreSQL'];
	return [
		...align([['request', 'outcomes'], ...outcomes]),
		'',
		...align([head, ...rows]),
		'',
		`${load.expected} responses as expected in ${seconds.toFixed(0)} s, ${load.unexpected} unexpected, ${load.heldBack} held back.`,
		'Growth by the hour (MiB/h) is that of the second half of the run.',
		...(seconds < minTellingMinutes * 60
			? [`In less than ${minTellingMinutes} minutes, growth by the hour tells little.`]
			: []),
		'',
	].join('\n');
}

function pointsOf(samples: readonly SoakSample[], service: ServiceName, field: keyof Use): Point[] {
	return samples.flatMap(({ seconds, uses }) => {
		const value = uses[service][field];
		return value === undefined ? [] : [[seconds, value] as const];
	});
}
