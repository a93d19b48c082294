import type { Sql } from '@contacts/common/database/client.js';
import { CommandError } from './errors.js';
import { projectExists } from './projects.sql.js';

/** @throws CommandError when there is no such project */
export async function checkProject(sql: Sql, code: string): Promise<void> {
	if (!(await projectExists(sql, code))) throw noProject(code);
}

export const noProject = (code: string) =>
	new CommandError(`There is no project "${code}": contacts project list shows all.`);
