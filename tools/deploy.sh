#!/bin/sh
# Builds the programs of a release into a folder, as in the repository: services/company-contacts, tools/cli and so on. Each has its
# production dependencies and nothing else.
#   sh tools/deploy.sh FOLDER
set -eu
CDPATH= cd -- "$(dirname -- "$0")/.."
mkdir -p "$1"
folder=$(CDPATH= cd -- "$1" && pwd)
pnpm=${PNPM:-pnpm}
programs='services/personal-contacts services/company-contacts workers/crm-sync tools/cli'

# shellcheck disable=SC2086 # A word for each program.
node tools/build.mjs $programs
for program in $programs; do
  # There are no optional packages, such as the formatter of the log on a terminal.
  $pnpm --filter "./$program" deploy --legacy --prod --no-optional --prefer-offline "$folder/$program"
done

# Programs need neither the tests and examples of their dependencies, nor types and source maps.
find "$folder" -type d \( -name test -o -name tests -o -name __tests__ -o -name benchmark -o -name benchmarks \
  -o -name example -o -name examples -o -name .github \) -path '*/node_modules/.pnpm/*' -prune -exec rm -rf {} +
find "$folder" -type f \( -name '*.map' -o -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.tsbuildinfo' \
  -o -name '*.test.js' -o -name '*.md' ! -iname 'licen*' \) -delete
# Every user may read them, whatever the umask is here.
chmod -R a+rX "$folder"
