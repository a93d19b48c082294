#!/bin/sh
# Runs another release with Docker Compose, or the previous one again, replica after replica:
#   sh operations/upgrade.sh 0.2.0
# The options of your "up" must be in .env (COMPOSE_FILE, COMPOSE_PROFILES). No request through the gateway fails.
set -eu
cd "$(dirname "$0")/.."
[ $# -eq 1 ] || { echo 'Name the version: sh operations/upgrade.sh 0.2.0' >&2; exit 2; }
compose=${DOCKER_COMPOSE:-docker compose}

# Kept in .env, so that a later "up" does not go back.
touch .env
kept=$(grep -v '^CONTACTS_VERSION=' .env || true)
{ [ -z "$kept" ] || echo "$kept"; echo "CONTACTS_VERSION=$1"; } >.env
export CONTACTS_VERSION="$1"

for image in $($compose config | sed -n "s/^ *image: \(.*:$1\)\$/\1/p" | sort -u); do
  docker image inspect "$image" >/dev/null 2>&1 || docker pull "$image"
done
$compose run --rm --no-deps migrate

wait_until_healthy() {
  for _ in $(seq 60); do
    [ "$(docker inspect --format '{{.State.Health.Status}}' "$1")" = healthy ] && return
    sleep 1
  done
  echo "The new container $1 of company-contacts is not healthy: see its log. The others still run." >&2
  exit 1
}

old=$($compose ps --quiet company-contacts)
replicas=$(echo "$old" | wc -w)
for container in $old; do
  # One alone is replaced by a second one beside it. Of several, one goes first: more have no database connections.
  if [ "$replicas" -gt 1 ]; then docker stop "$container" >/dev/null; docker rm "$container" >/dev/null; fi
  before=$($compose ps --quiet company-contacts)
  scale=$(($(echo "$before" | wc -w) + 1))
  $compose up --detach --no-build --no-deps --no-recreate --scale "company-contacts=$scale" company-contacts
  for new in $($compose ps --quiet company-contacts); do
    case " $(echo "$before" | tr '\n' ' ') " in *" $new "*) ;; *) wait_until_healthy "$new" ;; esac
  done
  if [ "$replicas" -eq 1 ]; then docker stop "$container" >/dev/null; docker rm "$container" >/dev/null; fi
done

# personal-contacts publishes a port, so its one container is replaced: the bot repeats the requests of that second.
$compose up --detach --no-build --scale "company-contacts=$replicas"
