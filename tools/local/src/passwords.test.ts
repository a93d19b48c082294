import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ownerRole, roles } from '@contacts/common/database/roles.js';
import { dispose, launch, partsOf } from '@contacts/testing/launcher.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import postgres from 'postgres';
import { expect, onTestFinished, test } from 'vitest';

/** Connects as this user. @returns the SQLSTATE of a refusal */
async function connectAs(url: string, username: string, password: string): Promise<string> {
	const address = Object.assign(new URL(url), { username, password: encodeURIComponent(password) });
	const sql = postgres(address.href, { max: 1, fetch_types: false });
	return sql`select 1`
		.then(
			() => 'connected',
			(error: { code: string }) => error.code,
		)
		.finally(() => sql.end());
}

test('the URL of a service opens the database with no role but its own', async () => {
	const folder = await temporaryFolder();
	const launcher = await launch(folder);
	onTestFinished(() => dispose(launcher));
	await launcher.ready();
	const serviceProcesses = () => Object.entries(partsOf(launcher).pids).filter(([name]) => name in roles);
	// The log line with a process ID may come after that of the addresses.
	await expect.poll(() => serviceProcesses().length).toBe(2);
	const urls = serviceProcesses().map(
		([, pid]) => /(?:^|\0)DATABASE_URL=([^\0]*)/.exec(readFileSync(`/proc/${pid}/environ`, 'utf8'))?.[1] ?? '',
	);
	const users = [...Object.values(roles), ownerRole, 'postgres'];
	for (const url of urls) {
		const { username: own, password } = new URL(url);
		expect(readFileSync(join(folder, 'password'), 'utf8')).not.toBe(password);
		for (const user of users)
			expect(await connectAs(url, user, password), `${own}'s password as ${user}`).toBe(
				user === own ? 'connected' : '28P01',
			);
	}
});
