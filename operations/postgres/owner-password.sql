-- For psql, after packages/common/owner.sql: lets contacts_owner log in with the password in OWNER_DATABASE_PASSWORD.
\getenv password OWNER_DATABASE_PASSWORD

-- The password must not get into the server's log.
set log_statement = 'none';
set log_min_duration_statement = -1;
set log_min_error_statement = 'panic';
alter role contacts_owner login password :'password';
