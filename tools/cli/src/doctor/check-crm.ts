import type { Sql } from '@contacts/common/database/client.js';
import { ConfigError, readVariables } from '@contacts/common/process/config.js';
import { createCrmClient } from '@contacts/crm-sync/bitrix24/client.js';
import { createCrm } from '@contacts/crm-sync/bitrix24/crm.js';
import { Bitrix24Error } from '@contacts/crm-sync/bitrix24/errors.js';
import { systemClock } from '@contacts/crm-sync/clock.js';
import { crmVariables, toCrmConfig } from '@contacts/crm-sync/config.js';
import { describeAlarms } from '@contacts/crm-sync/mirror/alarms.js';
import { readState } from '@contacts/crm-sync/mirror/state.sql.js';
import { describeUnreadablePhones, readUnreadablePhones } from '@contacts/crm-sync/mirror/unreadable-phones.sql.js';
import { adviceFor } from '../sync/advice.js';
import { type Assumption, examineAssumptions } from './assumptions.js';
import { type Check, ok, problem, skipped, warning } from './check.js';

/** The timeout for requests to the CRM, retries included. */
const timeoutMs = 10_000;

/** The same for the comparison of contacts: the CRM itself gives up after 60 seconds. */
const comparisonTimeoutMs = 70_000;

/** Whether the CRM responds, has the fields that are configured, and is as the mirror takes it to be. */
export async function* checkCrm(environment: NodeJS.ProcessEnv): Check {
	if (!environment.BITRIX24_WEBHOOK_URL) {
		yield skipped('BITRIX24_WEBHOOK_URL is not set: there is no CRM to mirror.');
		return '';
	}
	let last: Bitrix24Error | undefined;
	let host = '';
	try {
		const config = toCrmConfig(readVariables(crmVariables, environment));
		({ host } = new URL(config.webhookUrl));
		const open = (milliseconds: number) =>
			createCrmClient({
				webhookUrl: config.webhookUrl,
				policy: config.policy,
				clock: systemClock,
				signal: AbortSignal.timeout(milliseconds),
				onError(error) {
					last = error;
				},
			});
		const crm = createCrm(open(timeoutMs), config.codes);
		await crm.readFields({ waits: false });
		await crm.readCategories({ waits: false });
		const { total } = await crm.count();
		yield ok(`The CRM ${host} responds${total === undefined ? '' : `, with ${total} contacts`}.`);
		yield* (await examineAssumptions(open(comparisonTimeoutMs), crm, systemClock)).map(findingOf);
	} catch (error) {
		const refused = error instanceof Bitrix24Error ? error : last;
		if (error instanceof ConfigError) for (const line of error.lines) yield problem(line, 'Correct it.');
		else if (refused === undefined)
			yield problem(`The CRM ${host} does not respond.`, 'Check whether it can be reached from here.');
		else
			yield problem(
				`${refused.method} of the CRM ${host} fails with ${refused.code}.`,
				sentence(adviceFor(refused.code)),
			);
	}
	return '';
}

function findingOf({ text, state, seen, consequence, isSerious }: Assumption) {
	if (state === 'holds') return ok(`Holds: ${text} (${seen}).`);
	if (state === 'not seen') return skipped(`Not seen: ${text} (${seen}).`);
	const find = isSerious ? problem : warning;
	return find(`Does not hold: ${text} (${seen}).`, sentence(`what then: ${consequence}`));
}

/** Whether the synchroniser keeps the mirror up to date, and what blocks it. */
export async function* checkSynchroniser(sql: Sql, environment: NodeJS.ProcessEnv): Check {
	const state = await readState(sql);
	if (state.blocked_by !== null)
		yield problem(`The synchroniser is held up by ${state.blocked_by}.`, sentence(adviceFor(state.blocked_by)));
	for (const alarm of describeAlarms(state)) yield problem(alarm, 'contacts sync status');
	if (state.categories_refused_by !== null)
		yield warning(
			`The CRM does not tell the categories of its contacts (${state.categories_refused_by}): only the general one is read, and what is mirrored of others stays.`,
			'Let the webhook’s user read the CRM’s categories, if there are any.',
		);
	const phones = describeUnreadablePhones(await readUnreadablePhones(sql));
	if (phones !== undefined) yield warning(phones, 'Correct them in the CRM.');
	if (state.last_success_at === null) {
		if (environment.BITRIX24_WEBHOOK_URL)
			yield problem('The mirror was never equal to the CRM.', 'Start the synchroniser, or: contacts sync --once');
		else yield skipped('No sync run has succeeded yet.');
		return '';
	}
	const age = Date.now() - state.last_success_at;
	// A value that is no number is reported with the other settings of the CRM.
	const interval = (Number(environment.BITRIX24_INTERVAL_SECONDS) || 300) * 1000;
	const minutes = Math.floor(age / 60_000);
	if (age > Math.max(3 * interval, 900_000))
		yield problem(
			`The mirror was last equal to the CRM ${minutes} minutes ago.`,
			'Check whether the synchroniser is running: contacts sync status',
		);
	return `The mirror was equal to the CRM ${minutes} minutes ago.`;
}

const sentence = (text: string) => `${text[0]?.toUpperCase()}${text.slice(1)}.`;
