// Builds static/console.js and static/console.css. The same sources and lock file give the same
// bytes; the first line names the hash of the sources, by which a test sees that a build is stale.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const here = import.meta.dirname;
const client = join(here, '../../clients/typescript/src');
const filesOf = (folder) =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((it) => it.isFile())
    .map((it) => join(it.parentPath ?? it.path, it.name))
    .sort();

// The generated types of the client leave nothing in the script.
const scripts = [...filesOf(join(here, 'src')), ...filesOf(client)].filter((it) => !it.endsWith('/schema.ts'));
const sources = [...scripts, join(here, 'package-lock.json')];
const hash = createHash('sha256');
for (const file of sources) hash.update(readFileSync(file));
const banner = `/* Built from app/console/src by build.mjs; sources ${hash.digest('hex').slice(0, 16)} */`;

const { outputFiles } = await build({
  entryPoints: [join(here, 'src/console.tsx')],
  absWorkingDir: here,
  outdir: join(here, 'static'),
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  charset: 'utf8',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'inline',
  banner: { js: banner, css: banner },
  write: false,
});
for (const { path, text } of outputFiles) writeFileSync(path, text);
