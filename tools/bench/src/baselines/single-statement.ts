/** The plainest service that saves personal contacts: Fastify and postgres.js, and one statement for each request. */
import fastify from 'fastify';
import postgres from 'postgres';

interface PersonalContact {
	chat_id: number;
	username?: string | null;
	name?: string | null;
	birth_date?: string | null;
}

const text = { type: ['string', 'null'], maxLength: 255 };
const body = {
	type: 'object',
	required: ['chat_id'],
	additionalProperties: false,
	properties: { chat_id: { type: 'integer' }, username: text, name: text, birth_date: text },
};

const { PORT, DATABASE_URL = '' } = process.env;
const sql = postgres(DATABASE_URL, { max: 10 });
const [project] = await sql<{ id: string }[]>`select id from projects where code = 'bench'`;
const projectId = project?.id ?? null;

const server = fastify();
server.get('/health/ready', async () => ({ status: 'ready' }));
server.post<{ Body: PersonalContact }>('/api/personal_contacts', { schema: { body } }, async (request) => {
	const { chat_id, username = null, name = null, birth_date = null } = request.body;
	const saved = await sql`
		insert into personal_contacts (chat_id, username, name, birth_date, project_id)
		select ${chat_id}::bigint, ${username}::text, ${name}::text, ${birth_date}::text::date, ${projectId}::bigint
		where not exists (
			select from direct_subscriptions
			where chat_id = ${chat_id} and (ended_at is null or ended_at > now())
		)
		on conflict (chat_id) do update set
			username = excluded.username, name = excluded.name, birth_date = excluded.birth_date,
			project_id = excluded.project_id, updated_at = now()
		returning true`;
	return { ok: saved.length > 0 ? 'saved' : 'skipped' };
});
await server.listen({ host: '127.0.0.1', port: Number(PORT) });

process.once('disconnect', () => process.exit(0));
