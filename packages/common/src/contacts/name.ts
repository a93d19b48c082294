/** @returns the name in one Unicode form, on one line and without repeated spaces; null if nothing of it prints */
export function cleanName(text: string): string | null {
	const name = text.normalize('NFC').replace(/\s+/gu, ' ').trim();
	return /[^\s\p{Cf}\p{Cc}]/u.test(name) ? name : null;
}
