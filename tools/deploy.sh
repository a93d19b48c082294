#!/bin/sh
# What an image holds: a built program with its production dependencies and nothing else.
#   sh tools/deploy.sh IMAGE FOLDER
set -eu
cd "$(dirname "$0")/.."
pnpm=${PNPM:-pnpm}

# The images have no optional packages, such as the formatter of the log on a terminal.
$pnpm --filter "@contacts/$1" deploy --legacy --prod --no-optional --prefer-offline "$2"

# Programs need neither the tests and examples of their dependencies, nor types and source maps.
find "$2/node_modules" -type d \( -name test -o -name tests -o -name __tests__ -o -name benchmark -o -name benchmarks \
  -o -name example -o -name examples -o -name .github \) -path '*/node_modules/.pnpm/*' -prune -exec rm -rf {} +
find "$2" -type f \( -name '*.map' -o -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.tsbuildinfo' \
  -o -name '*.test.js' -o -name '*.md' ! -iname 'licen*' \) -delete
