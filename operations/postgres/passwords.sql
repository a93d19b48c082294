-- For psql, as a superuser, after packages/migrations/owner.sql: lets each role log in with the password in its environment variable.
-- A role whose variable is not set keeps what it has.

-- The passwords must not get into the server's log.
set log_statement = 'none';
set log_min_duration_statement = -1;
set log_min_error_statement = 'panic';

\getenv owner OWNER_DATABASE_PASSWORD
\getenv personal PERSONAL_CONTACTS_DATABASE_PASSWORD
\getenv company COMPANY_CONTACTS_DATABASE_PASSWORD
\getenv sync CRM_SYNC_DATABASE_PASSWORD
\getenv operator OPERATOR_DATABASE_PASSWORD
\getenv privacy PRIVACY_DATABASE_PASSWORD
\getenv backup BACKUP_DATABASE_PASSWORD

\if :{?owner}
  alter role contacts_owner login password :'owner';
\endif
\if :{?personal}
  alter role personal_contacts_service login password :'personal';
\endif
\if :{?company}
  alter role company_contacts_service login password :'company';
\endif
\if :{?sync}
  alter role crm_sync_service login password :'sync';
\endif
\if :{?operator}
  alter role contacts_operator login password :'operator';
\endif
\if :{?privacy}
  alter role contacts_privacy login password :'privacy';
\endif
\if :{?backup}
  alter role contacts_backup login password :'backup';
\endif
