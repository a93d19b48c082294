#!/bin/sh
# Dumps the database into BACKUP_DIRECTORY, reads the dump again, and deletes those older than BACKUP_KEEP_DAYS (30). No dump is
# deleted without a new one. pg_dump reads from PGHOST, PGUSER and so on where to connect.
set -eu
umask 077
# What a killed run left. Two days: another one may still be written.
find "$BACKUP_DIRECTORY" -name 'contacts-*.part' -mtime +1 -delete
file=$BACKUP_DIRECTORY/contacts-$(date -u +%Y%m%dT%H%M%SZ).dump
trap 'rm -f "$file.part"' EXIT
pg_dump --format=custom --schema=public --no-password --file="$file.part"
pg_restore --file=/dev/null "$file.part"
# The file has this name only once it is complete and on the disk.
mv "$file.part" "$file"
find "$BACKUP_DIRECTORY" -name 'contacts-*.dump' -mtime +"$((${BACKUP_KEEP_DAYS:-30} - 1))" -delete
