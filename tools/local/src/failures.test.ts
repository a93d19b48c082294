import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { serverUrl } from '@contacts/testing/database.js';
import { dispose, freePorts, type Launcher, launch, partsOf, remainsOf } from '@contacts/testing/launcher.js';
import { freePort } from '@contacts/testing/ports.js';
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

async function takenPort(): Promise<string> {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	onTestFinished(() => void server.close());
	return String((server.address() as { port: number }).port);
}

describe('a port', () => {
	test.each(['COMPANY_CONTACTS_PORT', 'PERSONAL_CONTACTS_PORT'])(
		'that is in use: one line names %s, and the folder is free again',
		async (variable) => {
			const port = await takenPort();
			const folder = await temporaryFolder();
			const line = new RegExp(`^Port ${port} is in use by another process: set ${variable} to a free one\\.$`);
			await expectLines({ [variable]: port }, [line], folder);
			await expectLines({ [variable]: port }, [line], folder);
			expect(existsSync(join(folder, 'postgres'))).toBe(false);
		},
	);

	test('that both services have: one line names both variables', async () => {
		const port = String((await freePorts()).company);
		await expectLines({ COMPANY_CONTACTS_PORT: port, PERSONAL_CONTACTS_PORT: port }, [
			/COMPANY_CONTACTS_PORT.*PERSONAL_CONTACTS_PORT|PERSONAL_CONTACTS_PORT.*COMPANY_CONTACTS_PORT/,
		]);
	});
});

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

	test.each(['0', '-1', '1.5', '0x50', ' 80', '99999999999999999999'])('COMPANY_CONTACTS_PORT=%j', async (port) => {
		await expectLines({ COMPANY_CONTACTS_PORT: port }, [/^COMPANY_CONTACTS_PORT is wrong: /]);
	});

	test.runIf(process.platform === 'linux')('LOCAL_DATA_DIR is a folder that no one can create', async () => {
		await expectLines({ LOCAL_DATA_DIR: '/proc/contacts' }, [
			/^\/proc\/contacts can't be written \(\w+\): set another LOCAL_DATA_DIR\.$/,
		]);
	});

	test('LOCAL_DATA_DIR is a file, or below one', async () => {
		const file = join(await temporaryFolder(), 'file');
		writeFileSync(file, 'precious');
		await expectLines({ LOCAL_DATA_DIR: file }, [/LOCAL_DATA_DIR/]);
		await expectLines({ LOCAL_DATA_DIR: join(file, 'below') }, [/LOCAL_DATA_DIR/]);
	});
});

describe('DATABASE_URL that does not work: one line', () => {
	const changed = (change: (url: URL) => void) => {
		const url = new URL(database.url);
		change(url);
		return url.href;
	};

	test('nothing listens there', async () => {
		const port = String(await freePort());
		const url = changed((parts) => {
			parts.port = port;
		});
		await expectLines({ DATABASE_URL: url }, [/^The database does not respond \(ECONNREFUSED\)\. Is it running/]);
	});

	test('none of several hosts can be used', async () => {
		const { host } = new URL(database.url);
		await expectLines({ DATABASE_URL: database.url.replace(host, '127.0.0.1:1,127.0.0.1:2') }, [
			/^The database can't be used: .*127\.0\.0\.1:1 \(ECONNREFUSED\); 127\.0\.0\.1:2 \(ECONNREFUSED\)\.$/,
		]);
	});

	test('the host is unknown', async () => {
		const url = changed((parts) => {
			parts.hostname = 'nowhere.invalid';
		});
		await expectLines({ DATABASE_URL: url }, [
			/^The database does not respond \((ENOTFOUND|EAI_AGAIN)\)\. Is it running/,
		]);
	});

	test('something else listens there and hangs up', async () => {
		const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
		await once(server, 'listening');
		onTestFinished(() => void server.close());
		const url = changed((parts) => {
			parts.port = String((server.address() as { port: number }).port);
		});
		await expectLines({ DATABASE_URL: url }, [/^The database does not respond \(\w+\)\. Is it running/]);
	});

	test('the password is wrong, which is not shown', async () => {
		const url = changed((parts) => {
			parts.password = 'canary';
		});
		await expectLines({ DATABASE_URL: url }, [/^The database refuses the user or the password in DATABASE_URL\.$/]);
	});

	test('there is no such database', async () => {
		await expectLines({ DATABASE_URL: serverUrl('no_such_database') }, [
			/^The database that DATABASE_URL names does not exist\.$/,
		]);
	});
});

describe('data that can’t be used: one line', () => {
	test.each([
		['precious', /holds files but no database\. Move them away, or use another LOCAL_DATA_DIR\.$/],
		['PG_VERSION', /is of PostgreSQL 12, and this is PostgreSQL \d+\. Move it away, or use another LOCAL_DATA_DIR\.$/],
	])('files that are not a database, or of another version (%s), are kept', async (name, line) => {
		const folder = await temporaryFolder();
		mkdirSync(join(folder, 'postgres'));
		writeFileSync(join(folder, 'postgres', name), '12');
		await expectLines({}, [line], folder);
		expect(readdirSync(join(folder, 'postgres'))).toEqual([name]);
	});
});
