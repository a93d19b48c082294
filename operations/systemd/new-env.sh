#!/bin/sh
# Writes the environment files of the units into /etc/contacts, with a random password for each role of the database.
# DATABASE_ADDRESS is PostgreSQL's address, if that runs on another machine.
set -eu
umask 077
# Don't overwrite an existing file: the database has its password.
set -C
cd /etc/contacts
random() { od -An -v -tx1 -N "$1" /dev/urandom | tr -d ' \n'; }
address=${DATABASE_ADDRESS:-127.0.0.1:5432}
if ! echo "$address" | grep -Eqx '((\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]+(,|$))+'; then
  echo 'DATABASE_ADDRESS must be HOST:PORT, of IPv6 [ADDRESS]:PORT, several separated by commas: nothing was written.' >&2
  exit 1
fi
url() { echo "DATABASE_URL=postgres://$1:$2@$address/contacts"; }

owner=$(random 24) personal=$(random 24) company=$(random 24) sync=$(random 24) operator=$(random 24) privacy=$(random 24)
backup=$(random 24)
url contacts_owner "$owner" >owner.env
cat >passwords.env <<EOF
OWNER_DATABASE_PASSWORD=$owner
PERSONAL_CONTACTS_DATABASE_PASSWORD=$personal
COMPANY_CONTACTS_DATABASE_PASSWORD=$company
CRM_SYNC_DATABASE_PASSWORD=$sync
OPERATOR_DATABASE_PASSWORD=$operator
PRIVACY_DATABASE_PASSWORD=$privacy
BACKUP_DATABASE_PASSWORD=$backup
EOF
url personal_contacts_service "$personal" >personal.env
cat >company.env <<EOF
$(url company_contacts_service "$company")
TRUST_PROXY=127.0.0.80
EOF
cat >crm-sync.env <<EOF
$(url crm_sync_service "$sync")
PORT=3002
TRUST_PROXY=127.0.0.80
BITRIX24_WEBHOOK_URL=
EOF
cat >gateway.env <<EOF
GATEWAY_PORT=127.0.0.1:8080
GATEWAY_RESOLVER=127.0.0.53
GATEWAY_CONNECTIONS_PER_CLIENT=500
GATEWAY_REQUESTS_PER_SECOND=50
GATEWAY_BURST=500
GATEWAY_SOURCE_ADDRESS=127.0.0.80
BITRIX24_EVENTS_ADDRESS=
BITRIX24_EVENTS_SECRET=
EOF
url contacts_operator "$operator" >operator.env
url contacts_privacy "$privacy" >privacy.env
# For pg_dump: a password in a URL would be seen on its command line.
cat >backup.env <<EOF
PGHOST=$(echo "$address" | sed 's/:[0-9]*\(,\|$\)/\1/g' | tr -d '[]')
PGPORT=$(echo "$address" | sed 's/[^,]*://g')
PGTARGETSESSIONATTRS=read-write
PGDATABASE=contacts
PGUSER=contacts_backup
PGPASSWORD=$backup
EOF
