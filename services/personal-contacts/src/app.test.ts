import { describeSharedContract } from '@contacts/testing/shared-contract.js';
import { service } from './app.js';

describeSharedContract(service, { method: 'POST', path: '/api/personal_contacts', body: '{"chat_id": 1}' });
