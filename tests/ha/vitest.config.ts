import { defineConfig } from 'vitest/config';

/** On its own: it needs root and Debian's packages, and takes as long as HA_MINUTES says. */
export default defineConfig({ test: { include: ['tests/ha/**/*.test.ts'], testTimeout: 0, reporters: ['default'] } });
