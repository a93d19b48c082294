import { urlAs } from '@contacts/common/database/roles.js';
import { rolePassword } from '@contacts/testing/database.js';
import { test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { found, look } from '../testing/findings.js';
import { ownDatabase } from '../testing/own-database.js';

const day = 86_400_000;

test('keys that expire within 14 days and keys unused for 90 are reported, and no others', async () => {
	const { url, sql } = await ownDatabase();
	const operator = urlAs(url, 'operator', rolePassword);
	const ago = (days: number) => new Date(Date.now() - days * day).toISOString();
	await sql`insert into projects (code) values ('acme'), ('gone')`;
	await sql`update projects set disabled_at = now() where code = 'gone'`;

	let keys = 0;
	async function addKey(
		project: string,
		{ age, used, expires, revoked }: { age: number; used?: number; expires?: number; revoked?: number },
	): Promise<number> {
		const time = (days: number | undefined) => (days === undefined ? null : ago(days));
		const [row] = await sql<[{ id: number }]>`
			insert into api_keys (project_id, hash, created_at, expires_at, revoked_at)
			select id, sha256(${`key ${++keys}`}::text::bytea), ${ago(age)}::text::timestamptz, ${time(expires)}::text::timestamptz,
			       ${time(revoked)}::text::timestamptz
			from projects where code = ${project} returning id::float8 as id`;
		if (used !== undefined)
			await sql`insert into api_key_uses (key_id, last_used_at) values (${row.id}, ${ago(used)}::text::timestamptz)`;
		return row.id;
	}

	await addKey('acme', { age: 100, used: 89, expires: -15 });
	await addKey('acme', { age: 89 });
	await addKey('acme', { age: 100, used: 1, expires: 1 });
	await addKey('acme', { age: 100, revoked: 1 });
	await addKey('gone', { age: 100, expires: -1 });
	expect(await look('keys', operator)).toEqual([found('ok', /No key expires within 14 days/)]);

	const expiring = await addKey('acme', { age: 1, expires: -13 });
	const unused = await addKey('acme', { age: 100, used: 91 });
	const never = await addKey('acme', { age: 91 });
	expect(await look('keys', operator)).toEqual([
		found('warning', new RegExp(`^Expire within 14 days: ${expiring} of acme \\(at [\\d :-]{16}\\)\\.$`), /key rotate/),
		found(
			'warning',
			new RegExp(
				`^Unused for 90 days: ${unused} of acme \\(last at [\\d :-]{16}\\), ${never} of acme \\(never used\\)\\.$`,
			),
			/key revoke/,
		),
	]);
});

test('of very many keys ten are named, and the others counted', async () => {
	const { url, sql } = await ownDatabase();
	await sql`insert into projects (code) values ('acme')`;
	await sql`
		insert into api_keys (project_id, hash, expires_at)
		select p.id, sha256(n::text::bytea), now() + interval '1 day' from projects p, generate_series(1, 40) n`;
	const [finding] = await look('keys', urlAs(url, 'operator', rolePassword));
	expect(finding?.message.match(/ of acme /g)).toHaveLength(10);
	expect(finding?.message).toMatch(/ and 30 more\.$/);
});
