#!/bin/sh
# Runs another release with Docker Compose, the previous one again, or this one with changed settings, replica after replica:
#   sh operations/upgrade.sh 0.2.0
# COMPOSE_FILE and COMPOSE_PROFILES must be in .env. Requests go on: docs/run.md. A run that was interrupted is finished by the
# next one, or undone by the next one with the version before.
set -eu
# Letters are those of ASCII.
export LC_ALL=C
CDPATH= cd -- "$(dirname -- "$0")/.."

fail() { echo "$1" >&2; exit 1; }

[ $# -eq 1 ] || { echo 'Name the version: sh operations/upgrade.sh 0.2.0' >&2; exit 2; }
case $1 in
  '' | [!0-9A-Za-z_]* | *[!0-9A-Za-z._-]*) echo "\"$1\" is no version, such as 0.2.0." >&2; exit 2 ;;
esac
# For every command below. Until the new release serves, .env names the old one.
export CONTACTS_VERSION="$1"

compose_version=$(docker compose version --short)
case ${compose_version#v} in
  0.* | 1.* | 2.[0-9].* | 2.1[0-9].* | 2.2[0-5].*) fail "Docker Compose is $compose_version here. It must be 2.26 or newer." ;;
esac

# The lock is on the folder, because .env is replaced. Every command inherits it: the lock ends with the last one.
command -v flock >/dev/null || fail 'This needs flock, of util-linux.'
exec 9<.
flock --nonblock 9 || fail 'Another upgrade is running in this folder.'

sh operations/readable.sh

for image in $(docker compose config --images); do
  case $image in *":$1") ;; *) continue ;; esac
  docker image inspect "$image" >/dev/null 2>&1 && continue
  # A name without a registry would lead to images of somebody else.
  case ${image%%/*} in
    *[.:]*) docker pull "$image" ;;
    *) fail "There is no image $image: build it first, see docs/run.md." ;;
  esac
done

services='company-contacts personal-contacts'

# Always with all dependencies. Without them (--no-deps), Compose 2.26 to 2.29 would label the replicas as if they had other
# settings, and the next "up" would replace all of them at once.
up() { docker compose up --detach --no-build "$@"; }

replicas() { docker compose ps --all --quiet "$@"; }

count() { replicas "$1" | wc -l; }

# The number of replicas by .env.
wanted() { docker compose config "$1" | sed -n 's/^    scale: //p'; }

remove() { docker stop "$1" >/dev/null; docker rm "$1" >/dev/null; }

# Removes what an interrupted run left: replicas that do not run or cannot serve, and more than there should be.
tidy() {
  docker compose rm --force "$1"
  surplus=$(($(count "$1") - $(wanted "$1")))
  # Unhealthy ones come first, and healthy ones last.
  docker compose ps --no-trunc --format '{{.Health}} {{.ID}}' "$1" | sort -r | while read -r health container; do
    [ "$health" = unhealthy ] || [ "$surplus" -gt 0 ] || break
    remove "$container"
    surplus=$((surplus - 1))
  done
}

# Adds a replica, and waits until it can serve.
add() { up --no-recreate --wait --wait-timeout 120 --scale "$1=$(($(count "$1") + 1))" "$1"; }

# The gateway would send requests to a new replica that cannot serve.
remove_new() {
  for container in $(replicas $services); do
    case $serving in *"$container"*) continue ;; esac
    docker logs --tail 20 "$container" >&2
    remove "$container"
  done
  # It runs again before each replica starts.
  docker logs --tail 5 "$migration" >&2
  echo 'The upgrade failed. What served before still runs.' >&2
}

# Writes the version into .env and keeps every other byte. The new file is written beside the old one and then moved, so .env
# is always whole.
keep_version() {
  umask 077
  [ -e .env ] || touch .env
  # A link stays a link.
  file=$(readlink -f .env)
  rm -f "$file.new"
  # With its owner and mode.
  cp -p "$file" "$file.new"
  [ "$(stat -c '%u %g %a' "$file")" = "$(stat -c '%u %g %a' "$file.new")" ] || fail 'Only the owner of .env, or root, can do this.'
  if grep -q '^CONTACTS_VERSION=' "$file"; then
    sed "s/^\(CONTACTS_VERSION=\)[^[:cntrl:]]*/\1$1/" "$file" >"$file.new"
  else
    { cat "$file"; [ -z "$(tail -c 1 "$file")" ] || echo; echo "CONTACTS_VERSION=$1"; } >"$file.new"
  fi
  [ "$(docker compose config)" = "$(unset CONTACTS_VERSION; docker compose --env-file "$file.new" config)" ] ||
    fail '.env sets CONTACTS_VERSION twice, or the line does not begin with CONTACTS_VERSION=.'
  sync "$file.new"
  mv "$file.new" "$file"
}

up migrate
migration=$(docker compose ps --all --quiet migrate)
[ "$(docker wait "$migration")" = 0 ] || { docker logs --tail 20 "$migration" >&2; fail 'The migration failed.'; }

for service in $services; do tidy "$service"; done
before=$(replicas $services)
serving=$before
trap 'exit 1' HUP INT TERM
trap remove_new EXIT
# The first new replica of each service. When they serve, .env names their version.
for service in $services; do add "$service"; done
keep_version "$1"
serving=$(replicas $services)
# The others, one after another, so there is never more than one replica above the number in .env.
for service in $services; do
  left=$(($(wanted "$service") - 1))
  for container in $(replicas "$service"); do
    case $before in *"$container"*) ;; *) continue ;; esac
    remove "$container"
    [ "$left" -gt 0 ] || continue
    add "$service"
    serving=$(replicas $services)
    left=$((left - 1))
  done
done
trap - EXIT

# Everything else.
up --wait --wait-timeout 120
# New alerts are a file of the same container.
[ -z "$(docker compose ps --quiet prometheus)" ] || docker compose kill -s HUP prometheus
