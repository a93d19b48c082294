import { describeSharedContract } from '@contacts/testing/shared-contract.js';
import { service } from './app.js';

describeSharedContract(
	service,
	{
		method: 'GET',
		path: '/api/company_contacts.list',
		parameters: ['company_id'],
		fromTable: '&company_id=4711',
	},
	{
		method: 'GET',
		path: '/api/company_contacts.changes',
		parameters: ['cursor', 'limit'],
		fromTable: '&limit=7',
	},
);
