import type { Sql } from '@contacts/common/database/client.js';

/** How the server writes values, and reads ours, unless a connection says otherwise: other than the defaults. */
const settings = {
	extra_float_digits: '0',
	DateStyle: 'German, DMY',
	IntervalStyle: 'sql_standard',
	TimeZone: 'Asia/Tokyo',
	bytea_output: 'escape',
	xmlbinary: 'hex',
	lc_monetary: 'C',
	quote_all_identifiers: 'on',
	standard_conforming_strings: 'off',
	escape_string_warning: 'off',
	array_nulls: 'off',
	transform_null_equals: 'on',
};

/** Sets all of them for new connections to this database, as an operator or another program may have done. */
export async function setOutputSettings(sql: Sql): Promise<void> {
	const [{ name }] = await sql<[{ name: string }]>`select current_database() as name`;
	for (const [setting, value] of Object.entries(settings))
		await sql.unsafe(`alter database ${name} set ${setting} = '${value}'`);
}
