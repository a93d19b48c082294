import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { dispose, freePorts, type Launcher, launch, partsOf, remainsOf } from '@contacts/testing/launcher.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';

async function start(dataFolder: string, more: Record<string, string> = {}): Promise<Launcher> {
	const launcher = await launch(dataFolder, more);
	onTestFinished(() => dispose(launcher));
	return launcher;
}

/** Expects exit 1 with these lines on standard error, and that nothing keeps running. */
async function expectLines(more: Record<string, string>, lines: (string | RegExp)[], dataFolder?: string) {
	const launcher = await start(dataFolder ?? (await temporaryFolder()), more);
	expect(await launcher.exit).toBe(1);
	expect(launcher.stderr().split('\n')).toEqual([...lines.map((line) => expect.stringMatching(line)), '']);
	expect(launcher.stdout()).not.toContain('Ready');
	expect(await remainsOf(partsOf(launcher))).toEqual([]);
}

test.each(['COMPANY_CONTACTS_PORT', 'PERSONAL_CONTACTS_PORT'])(
	'a port that is in use: one line names %s, and the folder is free again',
	async (variable) => {
		const server = createServer().listen(0, '127.0.0.1');
		await once(server, 'listening');
		onTestFinished(() => void server.close());
		const { port } = server.address() as { port: number };
		const folder = await temporaryFolder();
		const line = new RegExp(`^Port ${port} is in use by another process: set ${variable} to a free one\\.$`);
		await expectLines({ [variable]: String(port) }, [line], folder);
		await expectLines({ [variable]: String(port) }, [line], folder);
		expect(existsSync(join(folder, 'postgres'))).toBe(false);
	},
);

describe('wrong variables', () => {
	test('are named in one line each, with the allowed values', async () => {
		const wrong = {
			COMPANY_CONTACTS_PORT: 'canary',
			PERSONAL_CONTACTS_PORT: '65536',
			DATABASE_URL: 'mysql://canary@127.0.0.1/x',
		};
		const launcher = await start(await temporaryFolder(), wrong);
		expect(await launcher.exit).toBe(1);
		expect(launcher.stdout()).toBe('');
		expect(launcher.stderr().trimEnd().split('\n').sort()).toEqual([
			'COMPANY_CONTACTS_PORT is wrong: it must be an integer from 1 to 65535.',
			expect.stringMatching(/^DATABASE_URL is wrong: it must be a URL like postgres:/),
			'PERSONAL_CONTACTS_PORT is wrong: it must be an integer from 1 to 65535.',
		]);
	});

	test('one port for both services: one line names both variables', async () => {
		const port = String((await freePorts()).company);
		const line = /PERSONAL_CONTACTS_PORT and COMPANY_CONTACTS_PORT are the same/;
		await expectLines({ COMPANY_CONTACTS_PORT: port, PERSONAL_CONTACTS_PORT: port }, [line]);
	});

	test('LOCAL_DATA_DIR can’t be created, or is a file, or below one', async () => {
		const file = join(await temporaryFolder(), 'file');
		writeFileSync(file, 'precious');
		const folders = [file, join(file, 'below'), ...(process.platform === 'linux' ? ['/proc/contacts'] : [])];
		for (const folder of folders)
			await expectLines({ LOCAL_DATA_DIR: folder }, [/can't be written \(\w+\): set another LOCAL_DATA_DIR\.$/]);
	});
});

test.each<[string, Partial<URL>, RegExp]>([
	['that does not respond', { port: '1' }, /^The database does not respond \(ECONNREFUSED\)\. Is it running/],
	[
		'that refuses the password',
		{ password: 'canary' },
		/^The database refuses the user or the password in DATABASE_URL\.$/,
	],
])('a database %s: one line, without the password', async (_, part, line) => {
	await expectLines({ DATABASE_URL: Object.assign(new URL(database.url), part).href }, [line]);
});

test.each([
	['precious', /holds files but no database\. Move them away, or use another LOCAL_DATA_DIR\.$/],
	['PG_VERSION', /is of PostgreSQL 12, and this is PostgreSQL \d+\. Move it away, or use another LOCAL_DATA_DIR\.$/],
])('files that are not a database, or of another version (%s), are kept: one line', async (name, line) => {
	const folder = await temporaryFolder();
	mkdirSync(join(folder, 'postgres'));
	writeFileSync(join(folder, 'postgres', name), '12');
	await expectLines({}, [line], folder);
	expect(readdirSync(join(folder, 'postgres'))).toEqual([name]);
});
