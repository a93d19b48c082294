import { cpSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts, partsOf, remainsOf } from '@contacts/testing/launcher.js';
import { environmentOf, startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, onTestFinished, test } from 'vitest';
import { root } from './settings.js';

test('dev answers with what was changed, keeps what runs while the sources have an error, and starts again what has crashed', async () => {
	// A copy of the sources, which uses the packages that are installed here.
	const copy = await temporaryFolder();
	for (const path of readdirSync(root).filter((name) => !/^\.|^node_modules$/.test(name)))
		cpSync(join(root, path), join(copy, path), { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
	symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));

	const ports = await freePorts();
	const dataFolder = join(copy, 'data');
	const env = environmentOf({
		LOCAL_DATA_DIR: dataFolder,
		COMPANY_CONTACTS_PORT: String(ports.company),
		PERSONAL_CONTACTS_PORT: String(ports.personal),
	});
	const [command = '', ...args] = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).scripts.dev.split(' ');
	const dev = startProcess(command, args, { cwd: copy, env });
	onTestFinished(() => dev.stop());
	const parts = () => partsOf({ stderr: dev.stderr, dataFolder, ports });
	await dev.waitForLine(/^Ready\./m);

	const source = join(copy, 'services/company-contacts/src/list-company-contacts.ts');
	const original = readFileSync(source, 'utf8');
	const [place, ...more] = original.match(/operationId: '[^']+'/g) ?? [];
	expect(more).toEqual([]);
	/** As most editors do: another file takes the place of the old one. */
	const save = (text: string) => {
		writeFileSync(`${source}~`, text);
		renameSync(`${source}~`, source);
	};
	const operation = async () => {
		const document = await fetch(`http://127.0.0.1:${ports.company}/openapi.json`).catch(() => undefined);
		const { paths } = JSON.parse((await document?.text()) ?? '{ "paths": {} }');
		return paths['/api/company_contacts.list']?.get.operationId;
	};
	const { database } = parts().pids;

	let restarts = 0;
	const changeTo = async (name: string) => {
		save(original.replace(String(place), `operationId: '${name}'`));
		restarts += 1;
		await dev.waitForLine(new RegExp(`(?:Ready again[^]*){${restarts}}`));
		expect(await operation()).toBe(name);
	};
	// Twice: a watch may see only the first.
	await changeTo('first');
	await changeTo('second');

	save('export const wrong: string = 1;\n');
	await dev.waitForLine(/list-company-contacts\.ts.*error TS2322/);
	expect(await operation()).toBe('second');

	process.kill(Number(parts().pids['company-contacts']), 'SIGKILL');
	await dev.waitForLine(/^company-contacts has ended by itself: the next build starts it again\.$/m);
	expect(await operation()).toBe(undefined);
	await changeTo('third');

	const running = parts();
	expect(running.pids.database).toBe(database);
	expect(await remainsOf(running)).toHaveLength(6);
	dev.kill('SIGINT');
	expect(await dev.exit).toBe(0);
	expect(await remainsOf(running)).toEqual([]);
}, 300_000);
