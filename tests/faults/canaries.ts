/** What must appear nowhere: a key, the password of a role, and personal data. */
export const canaries = {
	key: 'canary-key_7Q/é+%',
	password: 'canarypassword8c1f',
	phone: '+12025550198',
	name: 'Canárie "Zoë" Vögelchen',
	username: 'canary_zoe_7731',
	birthDate: '1907-03-29',
};

/** The encodings in which a text may appear. */
export function formsOf(value: string): Record<string, string> {
	const bytes = Buffer.from(value);
	const hex = bytes.toString('hex');
	return {
		plain: value,
		'in JSON': JSON.stringify(value).slice(1, -1),
		'in JSON, escaped': JSON.stringify(value)
			.slice(1, -1)
			.replaceAll(/[^\x20-\x7e]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`),
		'in a URL': encodeURIComponent(value),
		'in a URL, twice': encodeURIComponent(encodeURIComponent(value)),
		'in a URL, octet by octet': hex.replaceAll(/../g, '%$&'),
		'in nginx, escaped': value.replaceAll('"', '\\x22'),
		'as Latin-1': bytes.toString('latin1'),
		hexadecimal: hex,
		// Without its ends, which depend on the bytes around it.
		'in Base64': bytes.toString('base64').slice(0, -4),
		'in Base64, for URLs': bytes.toString('base64url').slice(0, -4),
	};
}
