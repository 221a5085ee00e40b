// Builds static/console.js and static/console.css, the scripts of the pages that console.js loads when they are shown, and the licences of what
// is bundled in LICENSES.txt. The same sources and lock file give the same bytes; the first line of the two names the hash of the sources, by
// which a test sees that a build is stale. The names of the other scripts have the hash of their content.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
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
const banner = `/* Built from app/console/src by build.mjs; sources ${hash.digest('hex').slice(0, 16)} */\n`;

const { outputFiles, metafile } = await build({
  entryPoints: [join(here, 'src/console.tsx')],
  absWorkingDir: here,
  outdir: join(here, 'static'),
  chunkNames: '[name]-[hash]',
  splitting: true,
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  charset: 'utf8',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'inline',
  metafile: true,
  write: false,
});
for (const file of filesOf(join(here, 'static'))) if (/\.(js|css)$/.test(file)) rmSync(file);
for (const { path, text } of outputFiles) writeFileSync(path, /console\.(js|css)$/.test(path) ? banner + text : text);

const packages = new Set(Object.keys(metafile.inputs).flatMap((it) => it.match(/.*node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1] ?? []));
const licences = [...packages].sort().map((name) => {
  const of = join(here, 'node_modules', name);
  const { version, license } = JSON.parse(readFileSync(join(of, 'package.json'), 'utf8'));
  return `${name} ${version} (${license})\n\n${readFileSync(join(of, 'LICENSE'), 'utf8').trim()}\n`;
});
const rule = `\n${'-'.repeat(80)}\n\n`;
writeFileSync(join(here, 'static/LICENSES.txt'), `console.js contains these packages.\n${rule}${licences.join(rule)}`);
