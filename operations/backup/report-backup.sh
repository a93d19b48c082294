#!/bin/sh
# Reports the time of a successful backup to Prometheus's node exporter, for the alert BackupStale. Without the folder
# BACKUP_METRICS_DIRECTORY nothing is reported. "report-backup.sh never", before the first backup, reports since when one is
# expected, so that the alert also fires where none succeeds.
set -eu
umask 022
[ -d "$BACKUP_METRICS_DIRECTORY" ] || exit 0
CDPATH= cd -- "$BACKUP_METRICS_DIRECTORY"
metric=contacts_backup_last_success_timestamp_seconds
help='When the last backup was written and read again.'
if [ "${1-}" = never ]; then
	[ ! -e contacts.prom ] || exit 0
	metric=contacts_backup_expected_since_timestamp_seconds
	help='When backups were set up, until the first one succeeds.'
fi
cat >contacts.prom.part <<END
# HELP $metric $help
# TYPE $metric gauge
$metric $(date +%s)
END
mv contacts.prom.part contacts.prom
