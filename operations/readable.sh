#!/bin/sh
# Lets the containers read what they mount, which a clone or an archive unpacked under "umask 077" keeps from them.
set -eu
CDPATH= cd -- "$(dirname -- "$0")/.."
# By name: keys and passwords of an operator may stand in the same folders.
find gateway/*.conf gateway/*.template operations/backup operations/grafana operations/prometheus operations/alertmanager/alertmanager.yml \
	operations/redis/redis.conf operations/tls/*.conf operations/postgres/*.sql packages/migrations/owner.sql \
	! -perm -004 -exec chmod a+rX {} +
