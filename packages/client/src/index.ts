export {
	type ChangesOptions,
	type ChangesPage,
	type CompanyContact,
	type CompanyContactList,
	type CompanyContactsClient,
	type ContactChange,
	type CopyStore,
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
export type { ClientOptions } from './request.js';
