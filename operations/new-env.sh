#!/bin/sh
# Writes .env beside docker-compose.yml: .env.example, with a random password wherever the compose file has a default one.
set -eu
CDPATH= cd -- "$(dirname -- "$0")/.."
random() { od -An -v -tx1 -N "$1" /dev/urandom | tr -d ' \n'; }
umask 077
if [ -e .env ]; then
  echo 'There is a .env already, with the passwords that the database has: nothing was written.' >&2
  exit 1
fi
# Nor overwrite one that is made at this moment.
set -C
while IFS= read -r line; do
  case $line in
    '# '*_PASSWORD=) printf '%s%s\n' "${line#\# }" "$(random 24)" ;;
    *) printf '%s\n' "$line" ;;
  esac
done <.env.example >.env
sh operations/readable.sh
echo 'Wrote .env. The next "docker compose up" gives the roles of the database these passwords.'
