#!/bin/sh
# Runs another release with Docker Compose, or the previous one again, replica after replica:
#   sh operations/upgrade.sh 0.2.0
# COMPOSE_FILE and COMPOSE_PROFILES must be in .env. Requests go on: docs/run.md.
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
  docker image inspect "$image" >/dev/null 2>&1 && continue
  # A name without a registry would lead to images of somebody else.
  case ${image%%/*} in
    *[.:]*) docker pull "$image" ;;
    *) echo "There is no image $image: build it first, see docs/run.md." >&2; exit 1 ;;
  esac
done
$compose run --rm --no-deps migrate

count() { $compose ps --quiet "$1" | wc -w; }

remove() { docker stop "$1" >/dev/null; docker rm "$1" >/dev/null; }

wait_until_healthy() {
  for _ in $(seq 60); do
    [ "$(docker inspect --format '{{.State.Health.Status}}' "$1")" = healthy ] && return
    sleep 1
  done
  docker logs --tail 20 "$1" >&2
  # The gateway would send it requests, and the next upgrade would count it as one that serves.
  remove "$1"
  echo "The new container was not healthy, and was removed. The others still run." >&2
  exit 1
}

# Adds a container of this service, and waits until it can serve.
add() {
  before=$($compose ps --quiet "$1")
  scale=$(($(echo "$before" | wc -w) + 1))
  $compose up --detach --no-build --no-deps --no-recreate --scale "$1=$scale" "$1"
  for new in $($compose ps --quiet "$1"); do
    case " $(echo "$before" | tr '\n' ' ') " in *" $new "*) ;; *) wait_until_healthy "$new" ;; esac
  done
}

company=$(count company-contacts)
personal=$(count personal-contacts)
for service in company-contacts personal-contacts; do
  old=$($compose ps --quiet "$service")
  for container in $old; do
    # One alone is replaced by a second one beside it. Of several, one goes first: more have no database connections.
    if [ "$old" = "$container" ]; then
      add "$service"
      remove "$container"
    else
      remove "$container"
      add "$service"
    fi
  done
done

# Everything else.
$compose up --detach --no-build --scale "company-contacts=$company" --scale "personal-contacts=$personal"
# New alerts are a file of the same container.
[ -z "$($compose ps --quiet prometheus)" ] || $compose kill -s HUP prometheus
