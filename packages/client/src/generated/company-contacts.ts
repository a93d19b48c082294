// Made by openapi-typescript of docs/openapi/company-contacts.json.

export interface paths {
    "/api/company_contacts.list": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List company contacts
         * @description Returns all contacts. With `company_id` it returns exactly those linked to that company: 1 finds `"1"` and `"7,1"`, never `"11"`.
         *     They are ordered by `id`. The response is the whole list; there are no pages. For a company without contacts the list is empty. All
         *     projects see the same contacts: a project identifies the client; it does not own the data. A sandbox project sees only invented
         *     contacts.
         *
         *     `company_id` is written in plain decimal digits, up to 9223372036854775807. An empty value, `0`, `-1`, `1.5`, `1e3`, `0x10`, `+5`,
         *     a leading zero, white space, or the parameter given twice gets a 400. So does an unknown parameter: a misspelt `company_id` must not
         *     list everybody.
         */
        get: operations["company_contacts.list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/company_contacts.changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List changes of company contacts
         * @description Returns what has changed since a cursor, including deletions, for clients that keep a copy of all contacts. Without `cursor` it starts
         *     from an empty copy: following it until `has_more` is false returns every contact once, in pages. Applied in order to a map by `id`, the
         *     changes produce exactly what `company_contacts.list` returns. No change is skipped.
         *
         *     A cursor works for at least 30 days. A request takes a token from the same bucket as the list.
         */
        get: operations["company_contacts.changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description An error (RFC 9457). It never echoes the URL or a value that was sent. */
        Problem: {
            /**
             * @description Where the codes are explained, relative to the URL of the request.
             * @example /docs#errors
             */
            type: string;
            /**
             * @description The reason phrase of the status.
             * @example Unauthorized
             */
            title: string;
            /**
             * @description The status of the response.
             * @example 401
             */
            status: number;
            /** @description What is wrong, for a person to read. */
            detail: string;
            /**
             * @description The stable code of the error: branch on it. New codes may be added; handle an unknown one by its status.
             * @example invalid_json
             * @example invalid_body
             * @example invalid_query
             * @example unauthorized
             * @example not_found
             * @example method_not_allowed
             * @example request_timeout
             * @example cursor_expired
             * @example payload_too_large
             * @example unsupported_media_type
             * @example rate_limited
             * @example overloaded
             * @example database_error
             * @example internal_error
             */
            code: string;
            /**
             * @description The value of the header `x-request-id`. Quote it when you ask for help. In a response of the gateway itself it has no hyphens.
             * @example 0b5c8f0e-6c3e-4f0a-9a52-6d0c3c1f7b11
             */
            request_id: string;
            /** @description Only for invalid fields or parameters. */
            errors?: {
                /** @description Name of the field or parameter; `body` or `query` for an unknown one, or for the whole of it. */
                field: string;
                /** @description What is allowed there; never what was sent. */
                message: string;
            }[];
        };
        /** @description A contact of a company. All fields are always present. New ones may be added. */
        CompanyContact: {
            /**
             * @description ID of the record here. It stays for as long as its `bitrix_id` exists.
             * @example 3
             */
            id: number;
            /**
             * @description ID of the contact in the CRM.
             * @example 1007
             */
            bitrix_id: number;
            /**
             * @description International format with a leading plus.
             * @example +12025550103
             */
            phone: string | null;
            /**
             * @description IDs of the linked companies in the CRM, separated by commas without spaces, in the CRM's order; null when there are none.
             * @example 1,11,21
             */
            company_ids: string | null;
            /**
             * @description Name of the contact.
             * @example Chen Wei
             */
            name: string | null;
            /**
             * @description CRM ID of the employee in charge.
             * @example 6
             */
            assigned_by_id: number | null;
            /**
             * @description The string `true` if the contact is a problem, otherwise null.
             * @example null
             * @enum {string|null}
             */
            trouble_contact: "true" | null;
            /**
             * @description Why the contact is a problem.
             * @example Asks for a call back, never answers
             */
            perplexity_reason: string | null;
        };
        /** @description The list. It is compressed (Brotli or gzip) for a client that accepts it. */
        CompanyContactList: {
            /**
             * @description The number of elements in `data`.
             * @example 2
             */
            count: number;
            /** @description Ordered by `id`, ascending. */
            data: components["schemas"]["CompanyContact"][];
        };
        /** @description Changes, or none. The body is compressed (Brotli or gzip) for a client that accepts it. */
        CompanyContactChanges: {
            /** @description In the order of the changes, each contact at most once. */
            changes: ({
                /** @constant */
                deleted: false;
                contact: components["schemas"]["CompanyContact"];
            } | {
                /** @constant */
                deleted: true;
                /** @description Its record ID and its ID in the CRM, as they were. */
                contact: {
                    id: number;
                    bitrix_id: number;
                };
            })[];
            /** @description For the next request. Store it with your copy; it is one opaque string. */
            cursor: string;
            /** @description Whether there are more changes: send the next request at once. */
            has_more: boolean;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: {
        /**
         * @description ID of this request, the `request_id` of an error. Quote it when you ask for help.
         * @example 0b5c8f0e-6c3e-4f0a-9a52-6d0c3c1f7b11
         */
        "x-request-id": string;
        /**
         * @description Whole seconds to wait before the next attempt. Absent with `internal_error`.
         * @example 1
         */
        "Retry-After": number;
        /**
         * @description The size of the bucket.
         * @example 250
         */
        "RateLimit-Limit": number;
        /**
         * @description Tokens left.
         * @example 249
         */
        "RateLimit-Remaining": number;
        /**
         * @description Seconds until the bucket is full, or on a 429 until the next token.
         * @example 1
         */
        "RateLimit-Reset": number;
        /**
         * @description Identifies this body in this encoding. Send it back as `If-None-Match`.
         * @example "4rE2kJ0bqv9nW1mXy7cTzL3hSdA"
         */
        ETag: string;
        /**
         * @description Of the list: when the mirror was last found equal to the CRM (RFC 3339). It distinguishes an old list from one that is merely unchanged. Absent where nothing is mirrored.
         * @example 2025-11-04T09:30:00.000Z
         */
        "Contacts-Synced-At": string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    "company_contacts.list": {
        parameters: {
            query: {
                /** @description Code of the project that the API client belongs to. */
                project: string;
                /** @description Only the contacts linked to this company in the CRM, such as 7. */
                company_id?: number;
            };
            header?: {
                /** @description The `ETag` of the response that you have: while it is the same, the response is an empty 304. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The list. It is compressed (Brotli or gzip) for a client that accepts it. */
            200: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    ETag: components["headers"]["ETag"];
                    "Contacts-Synced-At": components["headers"]["Contacts-Synced-At"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CompanyContactList"];
                };
            };
            /** @description The body has not changed since the response whose `ETag` was sent as `If-None-Match`. There is no body. */
            304: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    ETag: components["headers"]["ETag"];
                    "Contacts-Synced-At": components["headers"]["Contacts-Synced-At"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description `invalid_query`: The request line, the URL or a query parameter does not have the required form. */
            400: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unauthorized`: The query parameters "project" and "api_key" must name a project and one of its valid keys, each once. */
            401: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not_found`: There is nothing at this path. */
            404: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `method_not_allowed`: This path does not accept this method; "Allow" names those that it accepts. */
            405: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `request_timeout`: The request did not arrive completely in time. Repeat it. */
            408: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `payload_too_large`: The request is larger than this service accepts. */
            413: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `rate_limited`: Too many requests. Try again after the time in "Retry-After". */
            429: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `payload_too_large`: The request is larger than this service accepts. */
            431: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `database_error`: The database did not respond. Try again after the time in "Retry-After". `internal_error`: The service failed. Quote "request_id" when you report it. */
            500: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `overloaded`: The service can accept no more requests at the moment. Try again after the time in "Retry-After". */
            503: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "company_contacts.changes": {
        parameters: {
            query: {
                /** @description Code of the project that the API client belongs to. */
                project: string;
                /** @description The `cursor` of an earlier response. Without it, the response starts with the first contact. */
                cursor?: string;
                /** @description Maximum number of changes in a response, 1 to 1000. Default: 1000. */
                limit?: number;
            };
            header?: {
                /** @description The `ETag` of the response that you have: while it is the same, the response is an empty 304. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Changes, or none. The body is compressed (Brotli or gzip) for a client that accepts it. */
            200: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    ETag: components["headers"]["ETag"];
                    "Contacts-Synced-At": components["headers"]["Contacts-Synced-At"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CompanyContactChanges"];
                };
            };
            /** @description The body has not changed since the response whose `ETag` was sent as `If-None-Match`. There is no body. */
            304: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    ETag: components["headers"]["ETag"];
                    "Contacts-Synced-At": components["headers"]["Contacts-Synced-At"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description `invalid_query`: The request line, the URL or a query parameter does not have the required form. */
            400: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unauthorized`: The query parameters "project" and "api_key" must name a project and one of its valid keys, each once. */
            401: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not_found`: There is nothing at this path. */
            404: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `method_not_allowed`: This path does not accept this method; "Allow" names those that it accepts. */
            405: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `request_timeout`: The request did not arrive completely in time. Repeat it. */
            408: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `cursor_expired`: The cursor is too old, or from before the data was restored. Begin again without a cursor. */
            410: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `payload_too_large`: The request is larger than this service accepts. */
            413: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `rate_limited`: Too many requests. Try again after the time in "Retry-After". */
            429: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `payload_too_large`: The request is larger than this service accepts. */
            431: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `database_error`: The database did not respond. Try again after the time in "Retry-After". `internal_error`: The service failed. Quote "request_id" when you report it. */
            500: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `overloaded`: The service can accept no more requests at the moment. Try again after the time in "Retry-After". */
            503: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "RateLimit-Limit": components["headers"]["RateLimit-Limit"];
                    "RateLimit-Remaining": components["headers"]["RateLimit-Remaining"];
                    "RateLimit-Reset": components["headers"]["RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
