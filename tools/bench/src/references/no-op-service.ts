/** personal-contacts with all its features, but with a save that does nothing. */
import { runServiceWith } from './service-with.js';

await runServiceWith(async () => true);
