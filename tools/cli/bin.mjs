#!/usr/bin/env node
// `npx -y pnpm@12 contacts …` runs this, as `pnpm exec` does: pnpm adds no line of its own to a failure, and the working folder stays
// that of the caller, so that file names mean what they mean in the shell.
process.argv.splice(2, 0, 'cli');
await import('../run.mjs');
