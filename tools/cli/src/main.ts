import { runContacts } from './run.js';

process.exitCode = await runContacts(process.argv.slice(2), process.env, process);
