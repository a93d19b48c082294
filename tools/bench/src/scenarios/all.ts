import type { Scenario } from '../bench.js';
import { listScenarios, requestScenarios } from './lists.js';
import { million } from './million.js';
import { pollers } from './pollers.js';
import { startUp } from './start-up.js';
import { upsertScenarios } from './upserts.js';

/** In the order in which they run. Scenarios with the same data are together. */
export const scenarios: Scenario[] = [
	startUp,
	...listScenarios,
	...requestScenarios,
	pollers,
	...upsertScenarios,
	million,
];
