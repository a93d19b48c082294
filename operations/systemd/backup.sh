#!/bin/sh
# Writes a backup into BACKUP_DIRECTORY, reads it again, and deletes those older than BACKUP_KEEP_DAYS (30). Nothing is deleted
# without a new backup. Reports the time to Prometheus's node exporter, for the alert BackupStale.
set -eu
umask 077
cd "$(dirname "$0")/../.."
contacts() { node tools/contacts/dist/main.js "$@"; }
file=$BACKUP_DIRECTORY/contacts-$(date -u +%Y%m%dT%H%M%SZ).backup
trap 'rm -f "$file.part"' EXIT
contacts backup --yes "$file.part"
contacts backup --verify "$file.part"
mv "$file.part" "$file"
find "$BACKUP_DIRECTORY" -name 'contacts-*.backup' -mtime +"${BACKUP_KEEP_DAYS:-30}" -delete
metrics=${BACKUP_METRICS_DIRECTORY:-}
if [ -d "$metrics" ]; then
  umask 022
  cat >"$metrics/contacts.prom.part" <<EOF
# HELP contacts_backup_last_success_timestamp_seconds When the last backup was written and read again.
# TYPE contacts_backup_last_success_timestamp_seconds gauge
contacts_backup_last_success_timestamp_seconds $(date +%s)
EOF
  mv "$metrics/contacts.prom.part" "$metrics/contacts.prom"
fi
