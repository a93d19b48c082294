import { defineConfig } from 'vitest/config';

/** A separate configuration: the test needs root and Debian's packages, and takes HA_MINUTES. */
export default defineConfig({ test: { include: ['tests/ha/**/*.test.ts'], testTimeout: 0, reporters: ['default'] } });
