-- Contacts are saved by one statement of the program, which is made of its list of columns.

drop function finish_crm_full_pass(boolean, boolean);
drop function save_crm_contacts(crm_sync_staging[]);
drop function differing_crm_contacts(crm_sync_staging[]);
