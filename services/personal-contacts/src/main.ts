import { runService } from '@contacts/common/process/run.js';
import { service } from './app.js';

await runService(service, process.env);
