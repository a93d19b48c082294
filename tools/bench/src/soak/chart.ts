import type { Point } from '../statistics.js';

export interface Line {
	name: string;
	points: readonly Point[];
}

export interface Panel {
	title: string;
	lines: readonly Line[];
}

const width = 990;
const height = 200;
const left = 60;
const right = 270;
const top = 30;
const bottom = 30;
// Okabe and Ito's palette, which is safe for colour-blind readers.
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9'];

/** Line charts one below the other over the same time, as an SVG document. */
export function drawChart(heading: string, panels: readonly Panel[]): string {
	const end = Math.max(
		1,
		...panels.flatMap(({ lines }) => lines.flatMap(({ points }) => points.map(([time]) => time))),
	);
	const drawn = panels.map(
		(panel, index) => `<g transform="translate(0 ${40 + index * height})">${draw(panel, end)}</g>`,
	);
	return [
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${50 + panels.length * height}" font-family="sans-serif" font-size="12">`,
		'<rect width="100%" height="100%" fill="white"/>',
		`<text x="${left}" y="24" font-size="16">${escapeText(heading)}</text>`,
		...drawn,
		'</svg>\n',
	].join('\n');
}

function draw({ title, lines }: Panel, end: number): string {
	const largest = Math.max(0, ...lines.flatMap(({ points }) => points.map(([, value]) => value)));
	const step = niceStep(Math.max(1, largest) / 4);
	const highest = step * Math.max(1, Math.ceil(largest / step));
	const x = (seconds: number) => round(left + (seconds / end) * (width - left - right));
	const y = (value: number) => round(height - bottom - (value / highest) * (height - top - bottom));

	const parts = [`<text x="${left}" y="${top - 12}" font-weight="bold">${escapeText(title)}</text>`];
	for (let value = 0; value <= highest + step / 2; value += step) {
		parts.push(
			`<path d="M${left} ${y(value)}H${width - right}" stroke="#ddd"/>`,
			`<text x="${left - 6}" y="${y(value) + 4}" text-anchor="end">${round(value)}</text>`,
		);
	}
	// Minutes, or seconds in a short run.
	const [unit, name] = end >= 120 ? [60, 'min'] : [1, 's'];
	const timeStep = niceStep(end / unit / 6);
	for (let time = 0; time * unit <= end; time += timeStep) {
		parts.push(
			`<text x="${x(time * unit)}" y="${height - bottom + 16}" text-anchor="middle">${round(time)} ${name}</text>`,
		);
	}
	for (const [index, { name, points }] of lines.entries()) {
		const colour = colours[index % colours.length];
		const path = points.map(([seconds, value]) => `${x(seconds)} ${y(value)}`).join('L');
		if (path !== '') parts.push(`<path d="M${path}" fill="none" stroke="${colour}" stroke-width="1.5"/>`);
		const labelled = top + 6 + index * 18;
		parts.push(
			`<path d="M${width - right + 16} ${labelled - 4}h20" stroke="${colour}" stroke-width="3"/>`,
			`<text x="${width - right + 42}" y="${labelled}">${escapeText(name)}</text>`,
		);
	}
	return parts.join('\n');
}

/** The next of 1, 2, 5, 10, 20, 50 and so on. */
function niceStep(atLeast: number): number {
	const power = 10 ** Math.floor(Math.log10(atLeast));
	return power * ([1, 2, 5].find((factor) => factor * power >= atLeast) ?? 10);
}

const round = (value: number) => Math.round(value * 100) / 100;

const escapeText = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
