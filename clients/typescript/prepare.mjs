// Builds the client. npm runs this when the client is installed from its folder, where its compiler may be missing.
import { execSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const cwd = fileURLToPath(new URL('.', import.meta.url));
const run = (command) => execSync(command, { stdio: 'inherit', cwd });
if (!existsSync(`${cwd}node_modules/typescript`)) run('npm ci --ignore-scripts --no-audit --no-fund');
run('node node_modules/typescript/bin/tsc');
