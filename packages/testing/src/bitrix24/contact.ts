/** A phone number or e-mail address of a contact. Its ID is unique in the whole CRM. */
export interface MultiField {
	id: number;
	/** WORK, MOBILE, HOME, FAX, PAGER, MAILING, OTHER, or a custom type of the CRM. */
	valueType: string;
	value: string;
}

/** A contact as the CRM stores it. */
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
	/** 0 is the general category, 7 that of the catalogue's vendors. */
	categoryId?: number;
	/** Returned and compared in whole seconds. */
	updatedTime: Date;
	createdTime: Date;
	/** By name (UF_CRM_…): boolean, string, string[], number (the ID of an option), number[]. */
	uf?: Record<string, unknown>;
	/** False: not in lists, and ACCESS_DENIED when it is requested. */
	readable?: boolean;
	/** Values of its rows by their names there, whatever is stored. Undefined: the row lacks the field. */
	raw?: Record<string, unknown>;
}

/** A category of the CRM's contacts. */
export interface Category {
	id: number;
	/** Made by the CRM itself, such as that of the catalogue's vendors. */
	isSystem?: boolean;
}

/** A custom field of the CRM's contacts. */
export interface UserField {
	/** The original name, with digits alone after UF_CRM_: UF_CRM_1700000000001. */
	name: string;
	/** boolean, string, enumeration, or any other type of a CRM, whose values are returned as they are stored. */
	type: string;
	multiple?: boolean;
	items?: { id: number; value: string }[];
}
