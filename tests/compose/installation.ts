import { execFileSync, spawnSync } from 'node:child_process';
import {
	appendFileSync,
	cpSync,
	existsSync,
	mkdirSync,
	mkdtempSync,
	readFileSync,
	rmSync,
	writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '@contacts/local-postgres/ports.js';
import { environmentOf } from '@contacts/testing/process.js';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const images = ['cli', 'company-contacts', 'personal-contacts', 'crm-sync'];
const built = ['migrate', 'company-contacts', 'personal-contacts', 'crm-sync'];

/** Without the variables of the test, which Compose would prefer to those of `.env`. */
export const environment = environmentOf({ DOCKER_CONFIG: process.env.DOCKER_CONFIG });

/** A clone on an operator's machine, with a Compose project, images and ports that nothing else has. */
export class Installation {
	readonly folder = mkdtempSync(join(tmpdir(), 'contacts-compose-'));
	readonly name = `contacts-test-${process.pid}`;
	readonly images = `localhost/${this.name}`;
	publicPort = 0;
	botPort = 0;

	/** Copies the files of the working tree that git knows, and writes `.env` as the pages say. */
	async create(): Promise<void> {
		const list = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
			cwd: repository,
		});
		const archive = execFileSync('tar', ['--create', '--null', '--files-from=-'], {
			cwd: repository,
			input: list,
			maxBuffer: 1 << 30,
		});
		// On many servers nobody else may read what root writes.
		const unpack = 'umask 077; tar --extract --no-same-permissions --directory "$1"';
		execFileSync('sh', ['-c', unpack, 'sh', this.folder], { input: archive });
		this.sh('sh operations/new-env.sh');
		[this.publicPort, this.botPort] = [await freePort(), await freePort()];
		this.set({
			COMPOSE_PROJECT_NAME: this.name,
			CONTACTS_IMAGES: this.images,
			GATEWAY_PORT: String(this.publicPort),
			PERSONAL_CONTACTS_PORT: String(this.botPort),
			PROMETHEUS_PORT: String(await freePort()),
			ALERTMANAGER_PORT: String(await freePort()),
			GRAFANA_PORT: String(await freePort()),
			COMPOSE_PROFILES: 'backup,monitoring',
			// The tests' clients all have one address, and send more than the rate of an address.
			GATEWAY_REQUESTS_PER_SECOND: '100000',
			GATEWAY_BURST: '100000',
		});
		// For machines whose builds reach package registries only through the host's network.
		const network = process.env.BUILD_NETWORK;
		if (network !== undefined) {
			const services = built.map((name) => `  ${name}: { build: { network: ${network} } }\n`).join('');
			writeFileSync(join(this.folder, 'build-network.yml'), `services:\n${services}`);
			this.set({ COMPOSE_FILE: 'docker-compose.yml:build-network.yml' });
		}
	}

	/** Lets Docker give each container a proxy, which reaches none of the others. Images must have been built, because builds use it, too. */
	useProxy(): void {
		const [folder, file] = [join(this.folder, 'docker'), join(this.folder, 'docker', 'config.json')];
		const own = process.env.DOCKER_CONFIG ?? join(homedir(), '.docker');
		if (existsSync(own)) cpSync(own, folder, { recursive: true, verbatimSymlinks: true });
		else mkdirSync(folder);
		const settings = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as object) : {};
		const proxy = 'http://127.0.0.1:9';
		const proxies = { default: { httpProxy: proxy, httpsProxy: proxy } };
		writeFileSync(file, JSON.stringify({ ...settings, proxies }));
		environment.DOCKER_CONFIG = folder;
	}

	/** Adds lines to `.env`. The last line of a name counts. */
	set(settings: Record<string, string>): void {
		const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
		appendFileSync(join(this.folder, '.env'), lines.join(''));
	}

	/**
	 * Runs shell commands as an operator does, and returns what they print.
	 *
	 * @throws Error with all their output when they fail
	 */
	sh(commands: string, input = ''): string {
		const outcome = this.try(commands, input);
		if (outcome.status !== 0) throw new Error(`${commands}\n${outcome.stdout}\n${outcome.stderr}`);
		return outcome.stdout;
	}

	/** Runs shell commands to their end, whatever that is. */
	try(commands: string, input = '') {
		return spawnSync('sh', ['-eu', '-c', commands], {
			cwd: this.folder,
			input,
			encoding: 'utf8',
			env: environment,
		});
	}

	/** The running containers of these services, or of all. */
	containers(...services: string[]): string[] {
		return this.sh(`docker compose ps --quiet ${services.join(' ')}`)
			.split('\n')
			.filter(Boolean);
	}

	inspect(format: string, container: string): string {
		return this.sh(`docker inspect --format '${format}' ${container}`).trim();
	}

	/** Another version of the images: the same programs, with a label. */
	tagVersion(version: string): void {
		for (const image of images) {
			const dockerfile = `FROM ${this.images}/${image}:0.1.0\nLABEL version=${version}\n`;
			this.sh(`docker build --quiet --tag ${this.images}/${image}:${version} -`, dockerfile);
		}
	}

	remove(): void {
		this.try("docker compose --profile '*' down --volumes --remove-orphans --timeout 5");
		this.try(`docker images --quiet '${this.images}/*' | xargs --no-run-if-empty docker rmi --force`);
		rmSync(this.folder, { recursive: true, force: true });
	}
}
