import { readFileSync } from 'node:fs';

export type Receiver = 'webhook_configs' | 'email_configs';

/** The configuration of Alertmanager, in which an operator has removed the "#" of one receiver. */
export function alertmanagerFile(receiver?: Receiver): string {
	const file = readFileSync(new URL('../../operations/alertmanager/alertmanager.yml', import.meta.url), 'utf8');
	if (receiver === undefined) return file;
	const block = new RegExp(`^ *# ${receiver}:\n( *#  .*\n)+`, 'm');
	if (!block.test(file)) throw new Error(`alertmanager.yml has no ${receiver}`);
	return file.replace(block, (text) => text.replaceAll('# ', ''));
}
