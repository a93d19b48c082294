import type { Sql } from '@contacts/common/database/client.js';
import { describeAlarms } from '@contacts/crm-sync/alarms.js';
import { createCrmClient } from '@contacts/crm-sync/bitrix24/client.js';
import { systemClock } from '@contacts/crm-sync/bitrix24/clock.js';
import { createCrm } from '@contacts/crm-sync/bitrix24/crm.js';
import { Bitrix24Error } from '@contacts/crm-sync/bitrix24/errors.js';
import { missingTroubleOptions } from '@contacts/crm-sync/mapping.js';
import { readState } from '@contacts/crm-sync/sync.sql.js';
import { adviceFor } from '../crm-advice.js';
import { readCrmConfig } from '../crm-config.js';
import { type Finding, findingsOf } from './check.js';

/** The timeout for requests to the CRM, retries included. */
const timeoutMs = 10_000;

/** Whether the CRM responds, and has the fields that are configured. */
export async function checkCrm(environment: NodeJS.ProcessEnv): Promise<Finding[]> {
	const { found, ok, problem, skipped, warning } = findingsOf('crm');
	if (!environment.BITRIX24_WEBHOOK_URL) {
		skipped('BITRIX24_WEBHOOK_URL is not set: there is no CRM to mirror.');
		return found;
	}
	const config = readCrmConfig(environment);
	if (Array.isArray(config)) {
		for (const line of config) problem(line, 'Correct it.');
		return found;
	}
	let last: Bitrix24Error | undefined;
	const client = createCrmClient({
		webhookUrl: config.webhookUrl,
		policy: config.policy,
		clock: systemClock,
		signal: AbortSignal.timeout(timeoutMs),
		onError(error) {
			last = error;
		},
	});
	const { host } = new URL(config.webhookUrl);
	try {
		const crm = createCrm(client, config.codes);
		await crm.readFields();
		const { total } = await crm.count();
		const options = missingTroubleOptions(crm.fields(), config.mapping);
		if (options.length > 0) {
			warning(
				`BITRIX24_TROUBLE_OPTIONS names options that the field BITRIX24_UF_TROUBLE does not have: ${options.join(', ')}.`,
				'Set IDs or labels of its options in the portal, then: contacts sync --remap',
			);
		}
		if (found.length === 0) ok(`The CRM ${host} responds${total === undefined ? '' : `, with ${total} contacts`}.`);
	} catch (error) {
		const refused = error instanceof Bitrix24Error ? error : last;
		if (refused === undefined)
			problem(`The CRM ${host} does not respond.`, 'Check whether it can be reached from here.');
		else problem(`The CRM ${host} refused ${refused.method} with ${refused.code}.`, sentence(adviceFor(refused.code)));
	}
	return found;
}

/** Whether the synchroniser keeps the mirror up to date, and what blocks it. */
export async function checkSynchroniser(sql: Sql, environment: NodeJS.ProcessEnv): Promise<Finding[]> {
	const { found, ok, problem, skipped } = findingsOf('synchroniser');
	const state = await readState(sql);
	if (state.blocked_by !== null)
		problem(`The synchroniser is held up by ${state.blocked_by}.`, sentence(adviceFor(state.blocked_by)));
	for (const alarm of describeAlarms(state)) problem(alarm, 'contacts sync status');
	if (state.last_success_at === null) {
		if (environment.BITRIX24_WEBHOOK_URL)
			problem('The mirror was never equal to the CRM.', 'Start the synchroniser, or: contacts sync --once');
		else if (found.length === 0) skipped('There has been no synchronisation.');
		return found;
	}
	const age = Date.now() - state.last_success_at;
	// A value that is no number is reported with the other settings of the CRM.
	const interval = (Number(environment.BITRIX24_INTERVAL_SECONDS) || 300) * 1000;
	const limit = Math.max(3 * interval, 900_000);
	const minutes = Math.floor(age / 60_000);
	if (age > limit)
		problem(
			`The mirror was last equal to the CRM ${minutes} minutes ago.`,
			'Check whether the synchroniser is running: contacts sync status',
		);
	else if (found.length === 0) ok(`The mirror was equal to the CRM ${minutes} minutes ago.`);
	return found;
}

const sentence = (text: string) => `${text[0]?.toUpperCase()}${text.slice(1)}.`;
