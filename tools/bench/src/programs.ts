import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** The path of a program, on the PATH or in one of these folders. Undefined: it was not found. */
export function findProgram(name: string, folders: string[] = []): string | undefined {
	const paths = [...(process.env.PATH ?? '').split(delimiter), ...folders].map((folder) => join(folder, name));
	return paths.find((path) => {
		try {
			accessSync(path, constants.X_OK);
			return true;
		} catch {
			return false;
		}
	});
}
