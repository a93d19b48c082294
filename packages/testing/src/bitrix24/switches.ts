/** The first position is that of a portal without options. */
const positions = <const T>(...values: [T, T, ...T[]]): readonly [T, T, ...T[]] => values;

/**
 * What differs between portals, plans and versions of the documentation, or is not confirmed by any source. A client has to
 * work in every position. The marks are explained in README.md.
 *
 * The first position is what is documented or was recorded. Where nothing is known, it is the one that demands more of a
 * client: a change of links and a restoration leave updatedTime as it was.
 */
export const switchPositions = {
	/** HTTP statuses of the system's errors. [DOC] three versions of the documentation differ. */
	statusTable: positions('newest', 'older', 'b24restdocs'),
	/** Statuses by error code, before the table. [??] */
	statuses: positions<Partial<Record<string, number>>>(
		{},
		{ QUERY_LIMIT_EXCEEDED: 200, OPERATION_TIME_LIMIT: 200, INVALID_CREDENTIALS: 500, NOT_FOUND: 404 },
	),
	/** The language of the CRM's own error descriptions. [FIELD] */
	language: positions('en', 'ru'),
	/** What a call gets when the webhook lacks the method's scope. [DOC] both are documented. */
	missingScope: positions('insufficient_scope', 'method_not_found'),
	/** Whether a call that the rate limit refuses raises the counter too. [??] */
	blockedCallsCount: positions(true, false),
	/** A Retry-After header on 503 and 429, in seconds. [??] none is documented. */
	retryAfter: positions<number | null>(null, 2),

	/** `total` of a list with start=-1. [DOC] [SRC] contradict each other. */
	totalWithoutCount: positions('absent', 'zero'),
	/** What crm.contact.list returns when `start` is beyond the end. [FIELD] for the first page, [??] how general it is. */
	classicPastEnd: positions('first-page', 'empty'),
	/** The order of a list whose request names none. [??] */
	defaultOrder: positions('ascending', 'descending'),
	/** A number or date in a filter that is empty or can't be read. [FIELD] both were seen. */
	emptyFilterValue: positions('ignored', 'refused'),
	/** Upper-case names in the filter and order of crm.item.list. [??] */
	itemUpperCaseNames: positions('refused', 'accepted'),
	/** An unknown field in the filter of crm.contact.list. [??] */
	classicUnknownFilter: positions('ignored', 'refused'),
	/** Which contacts crm.contact.list returns without a category in the filter. [??] */
	classicCategories: positions('general', 'all'),
	/** Whether crm.contact.list selects ids first and rows after, as crm.item.list does. [??] */
	classicTwoQueries: positions(true, false),

	/** `companyIds` in crm.item.list. [??] */
	itemListCompanyIds: positions('filled', 'absent', 'empty', 'primary'),
	/** `fm` in crm.item.list with a select of "*". [DOC] says filled. */
	itemListFm: positions('filled', 'absent', 'empty'),
	/** `companyId` and `hasPhone`, which tell what the lists above leave out. [DOC] */
	itemHints: positions('present', 'absent'),
	/** The general category in crm.item.*: `categoryId` 0, "0", null [DOC], or none. */
	itemGeneralCategory: positions('number', 'string', 'null', 'absent'),
	/** Whether `fm` comes with a select that names more than "*". [DOC] says no, [??] for older versions. */
	fmBesideStar: positions(false, true),
	/** What useOriginalUfNames=Y makes of the rows of a list with a select. [FIELD] both were seen. */
	originalUfNamesBug: positions('empty-rows', 'only-user-fields'),
	/** The primary company of a contact that has none. [DOC] [REC] null, "0". */
	noCompany: positions('null', 'zero'),
	/** A custom string or option that was never set. [REC] "", [??] null. */
	unsetUf: positions('empty', 'null'),
	/** A custom boolean that was never set: as "no", or as other custom fields. [REC] "0", [FIELD] "". */
	unsetBooleanUf: positions('no', 'unset'),
	/** The JSON type of an option's id in crm.item.*. [??] */
	itemEnumerationIds: positions('number', 'string'),
	/** A custom boolean in crm.contact.*: "1" and "0" [REC], or true and false [DOC]. */
	classicBooleanUf: positions('digits', 'json'),
	/** A multiple custom field without values in crm.contact.*. [INF] [], [FIELD] false. */
	classicEmptyMultiple: positions('array', 'false'),
	/** crm.contact.company.items.get for a contact that is gone. [??] */
	companiesOfMissing: positions('empty', 'access-denied'),
	/** All company links primary, with the same SORT. [REC] of the mirror method. */
	twoPrimaryCompanies: positions(false, true),

	/** `operating_reset_at` in `time`. [REC] [DOC] */
	operatingResetAt: positions('present', 'absent', 'null'),
	/** `start` and `processing` in `time` as whole numbers. [DOC] samples of 2026-09. */
	wholeSecondsInTime: positions(false, true),

	/** Whether a change of company links alone changes updatedTime. [??] */
	linkChangeTouches: positions(false, true),
	/** Whether a contact restored from the recycle bin has its old id. [??] */
	restoreKeepsId: positions(true, false),
	/** Whether restoring changes updatedTime. [??] */
	restoreTouches: positions(false, true),
};

export type Switches = { [Name in keyof typeof switchPositions]: (typeof switchPositions)[Name][number] };

/** The first position of each. */
export const defaultSwitches = Object.fromEntries(
	Object.entries(switchPositions).map(([name, [first]]) => [name, first]),
) as unknown as Readonly<Switches>;
