import { runService } from '@contacts/common/run.js';
import { service } from './app.js';

await runService(service, process.env);
