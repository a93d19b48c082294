import { expect } from 'vitest';
import type { Finding } from '../doctor/check.js';
import { examine } from '../doctor/doctor.js';
import { environmentOf } from './command.js';

/** The findings of one check, at this time or now. */
export async function look(
	check: string,
	url: string,
	environment = {},
	now = Date.now,
	portalTimeoutMs?: number,
): Promise<Finding[]> {
	const findings = await examine(environmentOf(url, environment), now, portalTimeoutMs);
	return findings.filter((finding) => finding.check === check);
}

/** A finding like this, for `toEqual`. */
export const found = (state: Finding['state'], message: RegExp, advice?: RegExp) =>
	expect.objectContaining({
		state,
		message: expect.stringMatching(message),
		...(advice ? { advice: expect.stringMatching(advice) } : {}),
	});
