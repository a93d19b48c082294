import { expect, test } from 'vitest';
import { drawPanels } from './chart.js';

const panel = (end: number, highest: number) => ({
	title: 'Memory, MiB',
	unit: undefined,
	series: [
		{
			name: 'a & b',
			points: [
				[0, 0],
				[end / 2, highest / 2],
				[end, highest],
			] as [number, number][],
		},
	],
});

test('each series is drawn through its points, within its panel', () => {
	const svg = drawPanels('Soak', [panel(60, 50), { title: 'Nothing', unit: undefined, series: [] }]);
	expect(svg).toMatch(/^<svg [^>]+><title>Soak<\/title>/);
	expect(svg.match(/<g transform="translate\((12|412) 12\)">/g)).toHaveLength(2);
	// From the lower left to the upper right corner, through the centre.
	expect(svg).toContain('d="M58.0 181.0L218.0 107.5L378.0 34.0"');
	expect(svg).toContain('>a &#38; b<');
	expect(svg.match(/stroke-width="1.5"/g)).toHaveLength(1);
});

test('the scales are round numbers, and the length is in seconds or minutes', () => {
	const labels = (end: number, highest: number) =>
		[...drawPanels('', [panel(end, highest)]).matchAll(/text-anchor="end">([^<]+)</g)].map(([, label]) => label);
	expect(labels(60, 83)).toEqual(['0', '50', '100', '60 s']);
	expect(labels(60, 0.7)).toEqual(['0', '0.5', '1', '60 s']);
	expect(labels(3600, 1)).toEqual(['0', '0.5', '1', '60 min']);
});
