#!/bin/sh
# For the container: makes a backup every night at 02:30 UTC, and reports its success and the end of the certificate. After a failure
# the next night tries again.
set -eu
CDPATH= cd -- "$(dirname -- "$0")"
sh report-backup.sh never
while :; do
	sh report-certificate.sh || true
	sleep $((86400 - ($(date +%s) - 9000) % 86400))
	if sh backup.sh; then sh report-backup.sh; fi
done
