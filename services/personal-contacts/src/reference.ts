import { guideText, type ReferenceInfo } from '@contacts/common/api-reference/document.js';

/** The introduction of this service's API reference. */
export const reference = (): ReferenceInfo => ({
	title: 'Personal contacts',
	summary: "The users of the bot's personal chats",
	description: guideText(new URL('../../../docs/bot.md', import.meta.url)),
});
