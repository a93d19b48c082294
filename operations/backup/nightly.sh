#!/bin/sh
# For the container: makes a backup every night at 02:30 UTC, and reports its success. After a failure the next night tries again.
set -eu
cd "$(dirname "$0")"
sh report-backup.sh never
while :; do
	sleep $((86400 - ($(date +%s) - 9000) % 86400))
	if sh backup.sh; then sh report-backup.sh; fi
done
