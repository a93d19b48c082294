/** One large response, as its reader saw it. */
export interface Transfer {
	status: number;
	/** Whether the service streamed it, without knowing its length beforehand. */
	streamed: boolean;
	bytes: number;
	/** Milliseconds from the request until the first byte of the body. */
	firstByte: number;
	/** Milliseconds from the request until the end. */
	milliseconds: number;
	/** The first characters of the body. */
	head: string;
	/** The last two characters of the body. */
	tail: string;
}
