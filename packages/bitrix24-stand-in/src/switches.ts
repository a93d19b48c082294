/**
 * What differs between portals, plans and versions of the documentation, or is not confirmed by any source. A client has to
 * work in every position. The marks are explained in README.md.
 */
export interface Switches {
	/** HTTP statuses of the system's errors. [DOC] three versions of the documentation differ. */
	statusTable: 'older' | 'b24restdocs' | 'newest';
	/** Statuses by error code, before the table. [??] */
	statuses: Partial<Record<string, number>>;
	/** The language of the CRM's own error descriptions. [FIELD] */
	language: 'en' | 'ru';
	/** What a call gets when the webhook lacks the method's scope. [DOC] both are documented. */
	missingScope: 'insufficient_scope' | 'method_not_found';
	/** Whether a call that the rate limit refuses raises the counter too. [??] */
	blockedCallsCount: boolean;
	/** A Retry-After header on 503 and 429, in seconds. [??] none is documented. */
	retryAfter: number | null;

	/** `total` of a list with start=-1. [DOC] [SRC] contradict each other. */
	totalWithoutCount: 'absent' | 'zero';
	/** What crm.contact.list answers when `start` is beyond the end. [FIELD] for the first page, [??] how general it is. */
	classicPastEnd: 'first-page' | 'empty';
	/** The order of a list that asks for none. [??] */
	defaultOrder: 'ascending' | 'descending';
	/** A number or date in a filter that is empty or can't be read. [FIELD] both were seen. */
	emptyFilterValue: 'ignored' | 'refused';
	/** Upper-case names in the filter and order of crm.item.list. [??] */
	itemUpperCaseNames: 'refused' | 'accepted';
	/** An unknown field in the filter of crm.contact.list. [??] */
	classicUnknownFilter: 'ignored' | 'refused';
	/** Which contacts crm.contact.list gives without a category in the filter. [??] */
	classicCategories: 'general' | 'all';
	/** Whether crm.contact.list selects ids first and rows after, as crm.item.list does. [??] */
	classicTwoQueries: boolean;

	/** `companyIds` in crm.item.list; crm.item.get always has it. [??] */
	itemListCompanyIds: 'filled' | 'absent' | 'empty';
	/** Whether `fm` comes with a select that names more than "*". [DOC] says no, [??] for older versions. */
	fmBesideStar: boolean;
	/** What useOriginalUfNames=Y makes of the rows of a list with a select. [FIELD] both were seen. */
	originalUfNamesBug: 'empty-rows' | 'only-user-fields';
	/** The primary company of a contact that has none. [DOC] [REC] null, "0". */
	noCompany: 'null' | 'zero';
	/** A custom string or option that was never set. [REC] "", [??] null. */
	unsetUf: 'empty' | 'null';
	/** A custom boolean that was never set: as "no", or as other custom fields. [REC] "0", [FIELD] "". */
	unsetBooleanUf: 'no' | 'unset';
	/** The JSON type of an option's id in crm.item.*. [??] */
	itemEnumerationIds: 'number' | 'string';
	/** A custom boolean in crm.contact.*: "1" and "0" [REC], or true and false [DOC]. */
	classicBooleanUf: 'digits' | 'json';
	/** A multiple custom field without values in crm.contact.*. [INF] [], [FIELD] false. */
	classicEmptyMultiple: 'array' | 'false';
	/** crm.contact.company.items.get for a contact that is gone. [??] */
	companiesOfMissing: 'empty' | 'access-denied';
	/** All company links primary, with the same SORT. [REC] of the mirror method. */
	twoPrimaryCompanies: boolean;

	/** `operating_reset_at` in `time`. [REC] [DOC] */
	operatingResetAt: 'present' | 'absent' | 'null';
	/** `start` and `processing` in `time` as whole numbers. [DOC] samples of 2026-09. */
	wholeSecondsInTime: boolean;

	/** Whether a change of company links alone changes updatedTime. [??] */
	linkChangeTouches: boolean;
	/** Whether a contact restored from the recycle bin has its old id. [??] */
	restoreKeepsId: boolean;
	/** Whether restoring changes updatedTime. [??] */
	restoreTouches: boolean;
}

/**
 * The positions without options: what is documented or was recorded, and where nothing is known what asks more of a client:
 * a change of links and a restoration leave updatedTime as it was.
 */
export const defaultSwitches: Readonly<Switches> = {
	statusTable: 'newest',
	statuses: {},
	language: 'en',
	missingScope: 'insufficient_scope',
	blockedCallsCount: true,
	retryAfter: null,
	totalWithoutCount: 'absent',
	classicPastEnd: 'first-page',
	defaultOrder: 'ascending',
	emptyFilterValue: 'ignored',
	itemUpperCaseNames: 'refused',
	classicUnknownFilter: 'ignored',
	classicCategories: 'general',
	classicTwoQueries: true,
	itemListCompanyIds: 'filled',
	fmBesideStar: false,
	originalUfNamesBug: 'empty-rows',
	noCompany: 'null',
	unsetUf: 'empty',
	unsetBooleanUf: 'no',
	itemEnumerationIds: 'number',
	classicBooleanUf: 'digits',
	classicEmptyMultiple: 'array',
	companiesOfMissing: 'empty',
	twoPrimaryCompanies: false,
	operatingResetAt: 'present',
	wholeSecondsInTime: false,
	linkChangeTouches: false,
	restoreKeepsId: true,
	restoreTouches: false,
};
