#!/bin/sh
# Reports the time of a successful backup to Prometheus's node exporter, for the alert BackupStale. Without the folder
# BACKUP_METRICS_DIRECTORY nothing is reported.
set -eu
umask 022
[ -d "$BACKUP_METRICS_DIRECTORY" ] || exit 0
cd "$BACKUP_METRICS_DIRECTORY"
cat >contacts.prom.part <<EOF
# HELP contacts_backup_last_success_timestamp_seconds When the last backup was written and read again.
# TYPE contacts_backup_last_success_timestamp_seconds gauge
contacts_backup_last_success_timestamp_seconds $(date +%s)
EOF
mv contacts.prom.part contacts.prom
