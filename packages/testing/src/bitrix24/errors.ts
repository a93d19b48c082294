import type { Switches } from './switches.js';

/** An error that a method returns: `{"error": code, "error_description": description}`. */
export class RestError extends Error {
	/** @param status undefined: as the table of system errors says */
	constructor(
		readonly code: string,
		readonly description = systemErrors[code]?.description ?? '',
		readonly status?: number,
	) {
		super(`${code}: ${description}`);
	}
}

interface SystemError {
	description: string;
	/** In the order older, b24restdocs, newest. */
	statuses: [number, number, number];
}

/** [DOC] What the REST API itself returns, to any method. Where a version is silent, as in the next one. */
const systemErrors: Record<string, SystemError> = {
	QUERY_LIMIT_EXCEEDED: { description: 'Too many requests', statuses: [503, 503, 503] },
	OPERATION_TIME_LIMIT: { description: 'Method is blocked due to operation time limit.', statuses: [429, 429, 429] },
	OVERLOAD_LIMIT: { description: 'REST API is blocked due to overload.', statuses: [200, 503, 401] },
	INVALID_CREDENTIALS: { description: 'Invalid request credentials', statuses: [200, 403, 401] },
	NO_AUTH_FOUND: { description: 'Wrong authorization data', statuses: [200, 401, 401] },
	insufficient_scope: {
		description: 'The request requires higher privileges than provided by the webhook token',
		statuses: [403, 403, 401],
	},
	ACCESS_DENIED: { description: 'REST is available only by subscription', statuses: [200, 403, 401] },
	INVALID_REQUEST: { description: 'Https required', statuses: [200, 400, 401] },
	expired_token: { description: 'The access token provided has expired', statuses: [401, 401, 401] },
	user_access_error: { description: 'The user does not have access to the application', statuses: [401, 401, 401] },
	ERROR_METHOD_NOT_FOUND: { description: 'Method not found!', statuses: [404, 404, 404] },
	INTERNAL_SERVER_ERROR: { description: 'Internal server error', statuses: [500, 500, 500] },
	ERROR_UNEXPECTED_ANSWER: { description: 'Server returned an unexpected response', statuses: [500, 500, 500] },
	PORTAL_DELETED: { description: 'Portal was deleted', statuses: [500, 500, 403] },
};

const editions = ['older', 'b24restdocs', 'newest'] as const;

/** The HTTP status of an error; 400 for any error that is not in the table. [DOC] */
export function statusOf(error: RestError, switches: Switches): number {
	if (error.status !== undefined) return error.status;
	const known = systemErrors[error.code];
	return switches.statuses[error.code] ?? known?.statuses[editions.indexOf(switches.statusTable)] ?? 400;
}

const texts = {
	elementNotFound: { en: 'Element not found', ru: 'Элемент не найден' },
	accessDenied: {
		en: 'You do not have permission to view this item',
		ru: 'У вас нет прав на просмотр этого элемента',
	},
	typeNotFound: { en: 'Smart process not found', ru: 'Смарт-процесс не найден' },
	classicNotFound: { en: 'Not found', ru: 'Не найдено' },
	classicAccessDenied: { en: 'Access denied.', ru: 'Доступ запрещен.' },
} as const;

/** [FIELD] An error of the CRM's own; its description is in the portal's language, so that only the code can be relied on. */
export function crmError(code: string, text: keyof typeof texts, switches: Switches): RestError {
	return new RestError(code, texts[text][switches.language], switches.statuses[code] ?? 400);
}
