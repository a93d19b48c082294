import { describeSharedContract } from '@contacts/testing/shared-contract.js';
import { service } from './app.js';

describeSharedContract(
	service,
	{ method: 'POST', path: '/api/personal_contacts', body: '{"chat_id": 1}' },
	{
		method: 'POST',
		path: '/api/direct_subscriptions',
		body: '{"chat_id": 2, "active": true}',
		table: 'direct_subscriptions',
	},
);
