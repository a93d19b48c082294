import { describeAnyInput, goodCredentials, holds, one } from '@contacts/testing/any-input.js';
import { anyText } from '@contacts/testing/any-request.js';
import { codeOf } from '@contacts/testing/raw-http.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { service } from './app.js';

const path = '/api/company_contacts.list';

describeAnyInput(service, { method: 'GET', path, parameters: ['company_id'] }, ({ send }) => {
	const companyIds = fc.oneof(
		anyText,
		fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }).map(String),
		fc.bigInt({ min: 2n ** 63n - 3n, max: 2n ** 63n + 3n }).map(String),
		fc.double().map(String),
		fc.integer({ min: 0 }).map((number) => [...`${number}`].map((digit) => '٠١٢٣٤٥٦٧٨٩'[Number(digit)]).join('')),
	);
	/** What the contract names, and what JavaScript would take for a number. */
	const named = ['', '0', '-1', '1.5', '1e3', '0x10', '0b11', '+5', ' 5 ', 'abc', '01', '1e400', '1_000', '1,2', '1\0'];

	test('a company_id that is not a positive integer in plain decimal digits gets a 400', async () => {
		const check = async (companyId: string) => {
			const query = `${goodCredentials.join('&')}&company_id=${encodeURIComponent(companyId.toWellFormed())}`;
			const response = one(await send(`GET ${path}?${query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`));
			if (/^[1-9]\d*$/.test(companyId) && BigInt(companyId) < 2n ** 63n) {
				expect(JSON.parse(response.body.toString())).toEqual({ count: 0, data: [] });
			} else {
				expect([response.status, codeOf(response)]).toEqual([400, 'invalid_query']);
				expect(JSON.parse(response.body.toString()).errors).toMatchObject([{ field: 'company_id' }]);
			}
		};
		await holds(companyIds, check, 60, named);
	});
});
