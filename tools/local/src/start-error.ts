/** Why the start failed, in one line for the person who started it. */
export class StartError extends Error {}
