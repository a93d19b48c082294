#!/bin/sh
# Reports the time of a successful backup to Prometheus's node exporter, for the alert BackupStale. Without the folder
# BACKUP_METRICS_DIRECTORY nothing is reported. "report-backup.sh never" reports the time 0 unless a backup has succeeded before,
# so that the alert also fires where the first one fails.
set -eu
umask 022
[ -d "$BACKUP_METRICS_DIRECTORY" ] || exit 0
cd "$BACKUP_METRICS_DIRECTORY"
time=$(date +%s)
if [ "${1-}" = never ]; then
	[ ! -e contacts.prom ] || exit 0
	time=0
fi
cat >contacts.prom.part <<EOF
# HELP contacts_backup_last_success_timestamp_seconds When the last backup was written and read again.
# TYPE contacts_backup_last_success_timestamp_seconds gauge
contacts_backup_last_success_timestamp_seconds $time
EOF
mv contacts.prom.part contacts.prom
