/** A phone number or e-mail address of a contact; the id is unique on the whole portal. */
export interface MultiField {
	id: number;
	/** WORK, MOBILE, HOME, FAX, PAGER, MAILING, OTHER, or a type of the portal's own. */
	valueType: string;
	value: string;
}

/** A contact as the portal holds it. */
export interface StandInContact {
	id: number;
	name?: string | null;
	secondName?: string | null;
	lastName?: string | null;
	assignedById?: number;
	/** In the order of the links; the first is the primary company. */
	companyIds?: number[];
	phones?: MultiField[];
	emails?: MultiField[];
	/** 0 is the general category. */
	categoryId?: number;
	/** Served and compared in whole seconds. */
	updatedTime: Date;
	createdTime: Date;
	/** By upper name (UF_CRM_...): boolean, string, string[], number (an option's id), number[]. */
	uf?: Record<string, unknown>;
	/** False: hidden from lists, access denied when asked for. */
	readable?: boolean;
}

/** A custom field of the portal's contacts. */
export interface UserField {
	/** The original name: UF_CRM_1700000000001. */
	name: string;
	type: 'boolean' | 'string' | 'enumeration';
	multiple?: boolean;
	items?: { id: number; value: string }[];
	title?: string;
}
