/** One series of a panel: seconds since the beginning, and values. */
export interface Series {
	name: string;
	points: readonly (readonly [seconds: number, value: number])[];
}

/** One of the charts of a picture. */
export interface DrawnPanel {
	title: string;
	/** As Grafana names it. Undefined: a plain number. */
	unit: string | undefined;
	series: Series[];
}

const [columns, width, height, margin, maxNames] = [3, 388, 208, 12, 4];
// Okabe and Ito's palette, which is safe for colour-blind readers.
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9'];

const style = `
svg { font: 11px system-ui, sans-serif; fill: #1d2b33; background: #f3f7f9; }
.panel { fill: #fff; stroke: #d4dde2; }
.grid { stroke: #e3eaee; }
.title { font-size: 13px; font-weight: 600; }
@media (prefers-color-scheme: dark) {
	svg { fill: #e4e9eb; background: #161b1f; }
	.panel { fill: #1e262b; stroke: #38444b; }
	.grid { stroke: #2c363c; }
}`;

/** Line charts as an SVG document, light or dark like the reader's screen. */
export function drawPanels(title: string, panels: readonly DrawnPanel[]): string {
	const [wide, high] = [columns * (width + margin), Math.ceil(panels.length / columns) * (height + margin)];
	return [
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${wide + margin} ${high + margin}"><title>${escapeText(title)}</title><style>${style}</style>`,
		...panels.map(drawPanel),
		'</svg>\n',
	].join('\n');
}

function drawPanel({ title, unit, series }: DrawnPanel, place: number): string {
	const points = series.flatMap((each) => each.points);
	const end = Math.max(1, ...points.map(([seconds]) => seconds));
	const scale = unit === 'bytes' ? 1_048_576 : 1;
	const top = scale * niceMaximum(Math.max(...points.map(([, value]) => value / scale), 0));
	const named = series.slice(0, maxNames);
	const [left, above, below] = [58, 34, 12 + named.length * 15];
	const x = (seconds: number) => (left + (seconds / end) * (width - left - 10)).toFixed(1);
	const y = (value: number) => (height - below - (value / top) * (height - above - below)).toFixed(1);
	const lines = [0, 0.5, 1].map(
		(part) =>
			`<path class="grid" d="M${left} ${y(part * top)}H${width - 10}"/>` +
			`<text x="${left - 6}" y="${Number(y(part * top)) + 4}" text-anchor="end">${inUnit(part * top, unit)}</text>`,
	);
	const duration = end >= 120 ? `${round(end / 60)} min` : `${round(end)} s`;
	const axis = `<text x="${width - 10}" y="${height - below + 14}" text-anchor="end">${duration}</text>`;
	const curves = series.map((each, index) => {
		const path = each.points.map(([seconds, value]) => `${x(seconds)} ${y(value)}`).join('L');
		return `<path d="M${path}" fill="none" stroke="${colours[index % colours.length]}" stroke-width="1.5"/>`;
	});
	const names = named.map(({ name }, index) => {
		const [nameX, nameY] = [left, height - below + 20 + index * 15];
		return (
			`<path d="M${nameX} ${nameY - 4}h10" stroke="${colours[index % colours.length]}" stroke-width="3"/>` +
			`<text x="${nameX + 14}" y="${nameY}">${escapeText(name)}</text>`
		);
	});
	return [
		`<g transform="translate(${margin + (place % columns) * (width + margin)} ${margin + Math.floor(place / columns) * (height + margin)})">`,
		`<rect class="panel" width="${width}" height="${height}" rx="4"/>`,
		`<text class="title" x="12" y="20">${escapeText(title)}</text>`,
		...lines,
		axis,
		...curves,
		...names,
		'</g>',
	].join('\n');
}

/** The next of 1, 2, 5, 10, 20, 50 and so on. */
function niceMaximum(atLeast: number): number {
	if (atLeast <= 0) return 1;
	const power = 10 ** Math.floor(Math.log10(atLeast));
	return power * ([1, 2, 5].find((factor) => factor * power >= atLeast) ?? 10);
}

function inUnit(value: number, unit: string | undefined): string {
	if (unit === 's') return value >= 1 || value === 0 ? `${round(value)} s` : `${round(value * 1000)} ms`;
	if (unit === 'bytes') return `${round(value / 1_048_576)} MiB`;
	if (unit === 'percentunit') return `${round(value * 100)} %`;
	if (unit === 'reqps' || unit === 'ops') return `${round(value)}/s`;
	return String(round(value));
}

const round = (value: number) => Number(value.toPrecision(3));
const escapeText = (text: string) => text.replace(/[&<>]/g, (each) => `&#${each.charCodeAt(0)};`);
