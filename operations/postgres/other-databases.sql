-- For psql, as a superuser, on a server that has no other databases: in those that every server has, each role could create
-- temporary tables and fill the disk.
revoke connect, temporary on database postgres, template1 from public;
