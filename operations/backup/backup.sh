#!/bin/sh
# Dumps the database into BACKUP_DIRECTORY, reads the dump again, and deletes those older than BACKUP_KEEP_DAYS (30; "forever": none).
# The newest seven stay, whatever the clock says. No dump is deleted without a new one. pg_dump reads from PGHOST, PGUSER and so on
# where to connect.
set -eu
umask 077
days=${BACKUP_KEEP_DAYS:-30}
case $days in
forever) ;;
0* | *[!0-9]* | ??????*)
	echo 'BACKUP_KEEP_DAYS must be a whole number of days from 1 on, or "forever": no backup was made, and none was deleted.' >&2
	exit 1
	;;
esac
# A week of nights: so many are needed to find a dump from before a mistake. A clock that is years ahead must not delete them.
min_kept=7
CDPATH= cd -- "$BACKUP_DIRECTORY"
day='[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]'
ours="contacts-${day}T[0-9][0-9][0-9][0-9][0-9][0-9]Z.dump"
# What a killed run left. Two days: another one may still be written.
find . -maxdepth 1 -type f -name "$ours.part" -mtime +1 -exec rm {} +
file=contacts-$(date -u +%Y%m%dT%H%M%SZ).dump
trap 'rm -f "$file.part"' EXIT
pg_dump --format=custom --schema=public --no-password --file="$file.part"
pg_restore --file=/dev/null "$file.part"
# The file has this name only once it is complete and on the disk.
mv "$file.part" "$file"
[ "$days" != forever ] || exit 0
oldest=$(date -u -d "@$(($(date +%s) - days * 86400))" +%Y%m%d%H%M%S)
# By the names of the dumps: the time of a file changes when somebody copies it.
find . -maxdepth 1 -type f -name "$ours" | sort -r | tail -n +$((min_kept + 1)) | while read -r dump; do
	[ "$(echo "$dump" | tr -cd 0-9)" -lt "$oldest" ] || continue
	rm "$dump"
	echo "Deleted ${dump#./}: older than $days days."
done
