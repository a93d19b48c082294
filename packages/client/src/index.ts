export type { ChangesOptions, ChangesPage, ContactChange, CopyStore } from './changes.js';
export {
	type CompanyContact,
	type CompanyContactList,
	type CompanyContactsClient,
	createCompanyContactsClient,
	type ListOptions,
} from './company-contacts.js';
export { ContactsConnectionError, ContactsError, type FieldError } from './errors.js';
export {
	createPersonalContactsClient,
	type DirectSubscription,
	type Outcome,
	type PersonalContact,
	type PersonalContactsClient,
} from './personal-contacts.js';
export type { ClientOptions } from './transport.js';
