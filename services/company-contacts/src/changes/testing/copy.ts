import type { TestApp } from '@contacts/testing/app.js';

type Change =
	| { deleted: false; contact: { id: number; bitrix_id: number } }
	| { deleted: true; contact: { id: number; bitrix_id: number } };

export interface ChangesBody {
	changes: Change[];
	cursor: string;
	has_more: boolean;
}

/** A partner's copy that uses only the changes. Its state is the contacts and one string. */
export class Copy {
	/** The contacts as received, by record ID. */
	contacts = new Map<number, string>();
	cursor: string | undefined;

	/** Polls once. @returns whether more pages are available */
	async poll(app: Pick<TestApp, 'fetch'>, limit = 1000): Promise<boolean> {
		const cursor = this.cursor === undefined ? '' : `&cursor=${this.cursor}`;
		const response = await app.fetch(
			`/api/company_contacts.changes?project=partner&api_key=partner-key&limit=${limit}${cursor}`,
		);
		if (response.status === 410) {
			this.contacts.clear();
			this.cursor = undefined;
			return true;
		}
		// As a partner does: on a busy machine the deadline of a query may pass.
		if (response.headers.has('retry-after')) return true;
		if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
		const body = (await response.json()) as ChangesBody;
		for (const { deleted, contact } of body.changes) {
			if (deleted) this.contacts.delete(contact.id);
			else this.contacts.set(contact.id, JSON.stringify(contact));
		}
		this.cursor = body.cursor;
		return body.has_more;
	}

	async follow(app: Pick<TestApp, 'fetch'>, limit?: number): Promise<void> {
		while (await this.poll(app, limit));
	}

	/** The response of `company_contacts.list`, if the copy is right. */
	get list(): string {
		const elements = [...this.contacts].sort(([one], [other]) => one - other).map(([, contact]) => contact);
		return `{"count":${elements.length},"data":[${elements.join(',')}]}`;
	}
}
