import { expect, test } from 'vitest';
import { drawChart } from './chart.js';

test('each line is drawn through its points, within its panel', () => {
	const svg = drawChart('Soak', [
		{
			title: 'Memory, MiB',
			lines: [
				{
					name: 'a & b',
					points: [
						[0, 0],
						[30, 40],
						[60, 80],
					],
				},
			],
		},
		{ title: 'Nothing', lines: [{ name: 'empty', points: [] }] },
	]);
	expect(svg).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" viewBox="0 0 990 450"/);
	expect(svg.match(/<g transform="translate\(0 (40|240)\)">/g)).toHaveLength(2);
	// From the lower left to the upper right corner, through the centre.
	expect(svg).toContain('d="M60 170L390 100L720 30"');
	expect(svg).toContain('>a &amp; b<');
	expect(svg.match(/stroke-width="1.5"/g)).toHaveLength(1);
});

test('the scales are round numbers, in seconds or minutes', () => {
	const svg = (end: number, highest: number) =>
		drawChart('', [
			{
				title: '',
				lines: [
					{
						name: '',
						points: [
							[0, 0],
							[end, highest],
						],
					},
				],
			},
		]);
	const labels = (text: string, anchor: string) =>
		[...text.matchAll(new RegExp(`text-anchor="${anchor}">([^<]+)<`, 'g'))].map(([, label]) => label);
	expect(labels(svg(60, 83), 'end')).toEqual(['0', '50', '100']);
	expect(labels(svg(60, 1), 'end')).toEqual(['0', '0.5', '1']);
	expect(labels(svg(60, 1), 'middle')).toEqual(['0 s', '10 s', '20 s', '30 s', '40 s', '50 s', '60 s']);
	expect(labels(svg(3600, 1), 'middle')).toEqual(['0 min', '10 min', '20 min', '30 min', '40 min', '50 min', '60 min']);
});
