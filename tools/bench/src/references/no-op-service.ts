/** personal-contacts with everything that it has, but a save that does nothing. */
import { runServiceWith } from './service-with.js';

await runServiceWith(async () => true);
