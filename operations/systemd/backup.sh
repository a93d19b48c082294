#!/bin/sh
# Writes a backup into BACKUP_DIRECTORY, reads it again, and deletes those older than BACKUP_KEEP_DAYS (30). No backup is deleted
# without a new one. A new one that only its record in the audit log lacks is kept; the exit code is that of the failure.
set -eu
umask 077
cd "$(dirname "$0")/../.."
contacts() { node tools/contacts/dist/main.js "$@"; }
# What a killed backup left. Two days: another one may still be written.
find "$BACKUP_DIRECTORY" -name 'contacts-*.part' -mtime +1 -delete
file=$BACKUP_DIRECTORY/contacts-$(date -u +%Y%m%dT%H%M%SZ).backup
trap 'rm -f "$file.part"' EXIT
code=0
contacts backup --yes "$file.part" || code=$?
# The file has this name only once it is complete.
[ -e "$file.part" ] || exit "$code"
contacts backup --verify "$file.part"
mv "$file.part" "$file"
find "$BACKUP_DIRECTORY" -name 'contacts-*.backup' -mtime +"${BACKUP_KEEP_DAYS:-30}" -delete
exit "$code"
