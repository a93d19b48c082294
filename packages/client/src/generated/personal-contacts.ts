// Made by openapi-typescript of docs/openapi/personal-contacts.json.

export interface paths {
    "/api/personal_contacts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Save the user of a personal chat
         * @description There is one record for each `chat_id`. A field that is present replaces the stored value, null clears it, and an absent field
         *     keeps it. The project that wrote last is recorded.
         *
         *     The user is saved only while the chat has **no active direct subscription** to the bot. While it has one, nothing is written and the
         *     response is `skipped`. The check and the write are one atomic statement.
         *
         *     JSON types are strict and nothing is coerced: `"12"` is not an integer, `""` is not null. A number counts as it is written:
         *     `1.0` and `1e3` are integers, `0.99999999999999999999` is not. Text with U+0000 or a lone surrogate is refused, never changed. A
         *     birth date is a real calendar date from 0001-01-01 on. It may lie in the future, and no time zone shifts it. An unknown field gets a
         *     400, because data in a misspelt field would be lost silently. A body has at most 16 KiB.
         */
        post: operations["personal_contacts.upsert"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/direct_subscriptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Report that a chat subscribes to the bot directly, or leaves it
         * @description Send it as soon as a chat subscribes to the bot directly (`"active": true`) or leaves it (`false`): while the subscription is
         *     active, saving a user of the chat is `skipped`, from the response to this request on.
         *
         *     It is idempotent: `true` for an active subscription, and `false` if none is active, change nothing. The requests for one chat count
         *     in the order in which they were sent, and **the last one decides**, whatever its `at` says.
         *
         *     `at` says only since when. A time that is more than a second in the future gets a 400. A subscription ends no earlier than it started:
         *     an earlier `at` counts as its start. An operator can plan the end of a subscription. `true` removes a planned end, and `false` ends
         *     the subscription now.
         */
        post: operations["direct_subscriptions.set"];
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
        /** @description `saved`: the row is durably committed. `skipped`: the chat has an active direct subscription, and nothing was written, but for the rare case in the guide. */
        Outcome: {
            ok: "saved" | "skipped";
        };
        /** @description The report is durably committed, even if it changed nothing. */
        Saved: {
            /** @constant */
            ok: "saved";
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
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    "personal_contacts.upsert": {
        parameters: {
            query: {
                /** @description Code of the project that the API client belongs to. */
                project: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /**
                     * @description ID of the personal chat, not 0.
                     * @example 5550001
                     */
                    chat_id: number;
                    /**
                     * @description User name, without "@".
                     * @example ivan
                     */
                    username?: string | null;
                    /**
                     * @description Full name.
                     * @example Ivan Petrov
                     */
                    name?: string | null;
                    /**
                     * Format: date
                     * @description Date of birth, YYYY-MM-DD.
                     * @example 1990-05-17
                     */
                    birth_date?: string | null;
                };
            };
        };
        responses: {
            /** @description `saved`: the row is durably committed. `skipped`: the chat has an active direct subscription, and nothing was written, but for the rare case in the guide. */
            200: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Outcome"];
                };
            };
            /** @description `invalid_body`: The body does not have the required form. `invalid_json`: The body is not valid JSON in UTF-8. `invalid_query`: The request line, the URL or a query parameter does not have the required form. */
            400: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
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
            /** @description `unsupported_media_type`: The body must be sent as application/json, without a content encoding. */
            415: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
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
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "direct_subscriptions.set": {
        parameters: {
            query: {
                /** @description Code of the project that the API client belongs to. */
                project: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /**
                     * @description ID of the personal chat, not 0.
                     * @example 5550001
                     */
                    chat_id: number;
                    /** @description Whether the chat has a direct subscription to the bot. */
                    active: boolean;
                    /**
                     * Format: date-time
                     * @description When the change took effect, RFC 3339; not in the future. Default: now.
                     * @example 2026-05-17T12:00:00Z
                     */
                    at?: string;
                };
            };
        };
        responses: {
            /** @description The report is durably committed, even if it changed nothing. */
            200: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Saved"];
                };
            };
            /** @description `invalid_body`: The body does not have the required form. `invalid_json`: The body is not valid JSON in UTF-8. `invalid_query`: The request line, the URL or a query parameter does not have the required form. */
            400: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
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
            /** @description `unsupported_media_type`: The body must be sent as application/json, without a content encoding. */
            415: {
                headers: {
                    "x-request-id": components["headers"]["x-request-id"];
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
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
