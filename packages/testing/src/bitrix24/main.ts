import { sampleContacts, sampleFieldNames, sampleFields } from './sample-contacts.js';
import { startStandIn } from './stand-in.js';

/** Reads a number from the environment. If it is not one, the program ends with one line. */
function variable(name: string, fallback: number, highest: number): number {
	const text = process.env[name];
	if (text === undefined || text === '') return fallback;
	if (/^\d+$/.test(text) && Number(text) <= highest) return Number(text);
	process.stderr.write(`${name} must be a whole number from 0 to ${highest}.\n`);
	process.exit(1);
}

const standIn = await startStandIn({
	port: variable('PORT', 0, 65_535),
	fields: sampleFields,
	contacts: sampleContacts(variable('STAND_IN_CONTACTS', 200, 1_000_000)),
}).catch((error: unknown) => {
	process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
	process.exit(1);
});

for (const event of ['SIGTERM', 'SIGINT', 'disconnect'] as const) {
	process.once(event, () => void standIn.close().then(() => process.exit(0)));
}
process.stdout.write(`${JSON.stringify({ webhookUrl: standIn.webhookUrl, fields: sampleFieldNames })}\n`);
