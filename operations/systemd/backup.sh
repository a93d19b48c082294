#!/bin/sh
# Writes a backup into BACKUP_DIRECTORY, reads it again, and deletes those older than BACKUP_KEEP_DAYS (30). Nothing is deleted
# without a new backup.
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
