import type { Seen } from './load.js';
import type { Run } from './report.js';

const [width, left, lane, plot] = [1200, 130, 22, 90];
const machines = ['db1', 'db2', 'db3', 'app1', 'app2', 'redis'];
const [primaryColour, brokenColour, recoveringColour] = ['#009e73', '#d55e00', '#e69f00'];
const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** An SVG document that shows the primary, each fault and its duration, and the responses in up to 600 columns. */
export function drawTimeline(heading: string, run: Run): string {
	const seconds = Math.max(1, (run.ended - run.begun) / 1000);
	const x = (at: number) => left + ((at - run.begun) / 1000 / seconds) * (width - left - 20);
	const bar = (from: number, to: number, y: number, height: number, colour: string, title: string) =>
		`<rect x="${x(from).toFixed(1)}" y="${y}" width="${Math.max(1, x(to) - x(from)).toFixed(1)}" height="${height}" fill="${colour}"><title>${escaped(title)}</title></rect>`;
	const label = (text: string, y: number) => `<text x="8" y="${y}">${escaped(text)}</text>`;

	const top = 44;
	const lanes = machines.flatMap((machine, index) => {
		const y = top + index * lane;
		const reigns = run.reigns.flatMap(({ at, primary }, n) =>
			primary === machine
				? [bar(at, run.reigns[n + 1]?.at ?? run.ended, y + 2, lane - 4, primaryColour, `${machine} is the primary`)]
				: [],
		);
		const broken = run.faults
			.filter((fault) => fault.machine === machine)
			.flatMap(({ what, begun, ended, whole }) => [
				bar(begun, ended || run.ended, y + 6, lane - 12, brokenColour, what),
				bar(ended || run.ended, whole || run.ended, y + 9, lane - 18, recoveringColour, `whole again after: ${what}`),
			]);
		return [label(machine, y + 15), ...reigns, ...broken];
	});
	const below = top + machines.length * lane + 20;
	const plots = [
		...columns('upserts a second', run.load.upserts, below),
		...columns('lists a second', run.load.lists, below + plot + 20),
	];
	function columns(title: string, seen: readonly Seen[], y: number): string[] {
		const columnMs = 1000 * Math.ceil(seconds / 600);
		const good = new Map<number, number>();
		const bad = new Map<number, number>();
		for (const { at, outcome } of seen) {
			const index = Math.floor((at - run.begun) / columnMs);
			const counts = outcome === 200 ? good : bad;
			counts.set(index, (counts.get(index) ?? 0) + 1000 / columnMs);
		}
		const highest = Math.max(1, ...[...good].map(([index, count]) => count + (bad.get(index) ?? 0)));
		const column = (index: number, from: number, count: number, colour: string) => {
			const height = (count / highest) * plot;
			const begin = run.begun + index * columnMs;
			const columnTop = y + plot - (from / highest) * plot - height;
			return bar(begin, begin + columnMs, columnTop, height, colour, `${Math.round(count)}`);
		};
		return [
			label(title, y + 12),
			label(`up to ${Math.round(highest)}`, y + 28),
			...[...good].map(([index, count]) => column(index, 0, count, '#0072b2')),
			...[...bad].map(([index, count]) => column(index, good.get(index) ?? 0, count, brokenColour)),
		];
	}
	const bottom = below + 2 * (plot + 20);
	// At most twelve of them, so that they don't overlap.
	const step = Math.ceil(seconds / 60 / 12);
	const minutes = Array.from({ length: Math.floor(seconds / 60 / step) + 1 }, (_, index) => {
		const n = index * step;
		const at = x(run.begun + n * 60_000).toFixed(1);
		return `<line x1="${at}" y1="${top}" x2="${at}" y2="${bottom}" stroke="#ccc"/><text x="${at}" y="${bottom + 14}" text-anchor="middle">${n} min</text>`;
	});
	return [
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${bottom + 24}" font-family="sans-serif" font-size="12">`,
		`<title>${escaped(heading)}</title>`,
		'<rect width="100%" height="100%" fill="white"/>',
		`<text x="8" y="20" font-size="15">${escaped(heading)}</text>`,
		`<text x="8" y="38"><tspan fill="${primaryColour}">primary</tspan> <tspan fill="${brokenColour}">broken, or failed</tspan> <tspan fill="${recoveringColour}">until all is whole</tspan> <tspan fill="#0072b2">status 200</tspan></text>`,
		...minutes,
		...lanes,
		...plots,
		'</svg>\n',
	].join('\n');
}
