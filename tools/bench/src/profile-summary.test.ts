import { expect, test } from 'vitest';
import { selfTimes } from './profile-summary.js';

test('self times are summed by function, the greatest first, and idle time is left out', () => {
	const frame = (functionName: string, url = '', lineNumber = 0) => ({ functionName, url, lineNumber });
	const profile = {
		nodes: [
			{ id: 1, callFrame: frame('(idle)') },
			{ id: 2, callFrame: frame('send', 'file:///r/node_modules/.pnpm/a@1/node_modules/a/lib/send.js', 9) },
			// The same function, called from elsewhere.
			{ id: 3, callFrame: frame('send', 'file:///r/node_modules/.pnpm/a@1/node_modules/a/lib/send.js', 9) },
			{ id: 4, callFrame: frame('', 'file:///r/packages/common/dist/http/server.js', 66) },
			{ id: 5, callFrame: frame('writev') },
		],
		samples: [1, 2, 3, 4, 5, 5],
		timeDeltas: [5000, 30, 30, 20, 10, 10],
	};
	expect(selfTimes(profile, 3)).toEqual([
		{ where: 'send  a/lib/send.js:10', share: 0.6 },
		{ where: '(anonymous)  packages/common/dist/http/server.js:67', share: 0.2 },
		{ where: 'writev', share: 0.2 },
	]);
	expect(selfTimes(profile, 1)).toHaveLength(1);
});
