import { type CrmConfig, isLoopback } from '../config.js';
import { mappingVersion } from '../mapping.js';

/** Everything that decides how a contact of the CRM becomes a row of the mirror. It is stored and shown, so no secrets. */
export interface MirrorConfiguration {
	/** The CRM's host. On a loopback host without the port, because a stand-in or a tunnel has another port at every start. */
	portal: string;
	/** The webhook's user, whose rights decide what can be read. */
	webhook_user: number;
	trouble_field: string | null;
	reason_field: string | null;
	trouble_options: string[];
	default_country: string | null;
	mapping_version: number;
}

/** The environment variables of the compared values. */
const variables = {
	portal: 'BITRIX24_WEBHOOK_URL',
	trouble_field: 'BITRIX24_UF_TROUBLE',
	reason_field: 'BITRIX24_UF_REASON',
	trouble_options: 'BITRIX24_TROUBLE_OPTIONS',
	default_country: 'BITRIX24_DEFAULT_COUNTRY',
} as const;

/** The block of a synchroniser whose configuration differs from the mirror's. */
export const configurationDiffers = 'configuration_differs';

/** The mirror belongs to another configuration: a run with this one would mix its rows or empty them. */
export class ConfigurationDiffersError extends Error {
	override name = 'ConfigurationDiffersError';
	constructor(readonly differences: string[]) {
		super(`the mirror was made with another configuration: ${differences.join('; ')}`);
	}
}

export function mirrorConfiguration({ webhookUrl, codes, mapping }: CrmConfig): MirrorConfiguration {
	const url = new URL(webhookUrl);
	return {
		portal: isLoopback(url.hostname) ? url.hostname : url.host,
		webhook_user: Number(url.pathname.split('/')[2]),
		trouble_field: codes.trouble ?? null,
		reason_field: codes.reason ?? null,
		trouble_options: [...mapping.troubleOptions].sort(),
		default_country: mapping.country ?? null,
		mapping_version: mappingVersion,
	};
}

/**
 * Compares the mirror's configuration with the own one.
 *
 * @returns `differences`: what somebody has to confirm before `own` replaces `stored`, each as part of a sentence; `isNew`: whether
 *   every contact must be read again then
 */
export function compare(
	stored: MirrorConfiguration | null,
	own: MirrorConfiguration,
): { differences: string[]; isNew: boolean } {
	if (stored === null) return { differences: [], isNew: true };
	const differences = (Object.keys(variables) as (keyof typeof variables)[]).flatMap((name) => {
		const [there, here] = [shown(stored[name]), shown(own[name])];
		return there === here ? [] : [`${variables[name]} is ${there} there and ${here} here`];
	});
	// If two releases took turns, the older one would undo what the newer one writes.
	if (stored.mapping_version > own.mapping_version)
		differences.push(`a later release made it (mapping ${stored.mapping_version}, here ${own.mapping_version})`);
	const isSame = stored.webhook_user === own.webhook_user && stored.mapping_version === own.mapping_version;
	return { differences, isNew: differences.length > 0 || !isSame };
}

/** @throws ConfigurationDiffersError if somebody has to confirm `own` before it replaces `stored` */
export function requireConfirmed(stored: MirrorConfiguration | null, own: MirrorConfiguration): void {
	const { differences } = compare(stored, own);
	if (differences.length > 0) throw new ConfigurationDiffersError(differences);
}

function shown(value: string | string[] | null): string {
	const text = Array.isArray(value) ? value.join(',') : value;
	return text || 'not set';
}
