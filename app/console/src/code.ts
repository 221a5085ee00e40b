/** A request as code that can be run as it stands. */
import type { RefinementRequest } from 'hone';

/** Controls above U+007F, characters that override the direction of text, and other invisible ones that no word needs. */
const UNSEEN = /[\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Return JSON that shows what is in it: strings have such characters as escapes, which JSON, Python and TypeScript read alike. */
export const jsonOf = (value: unknown, indent?: number): string =>
  (JSON.stringify(value, null, indent) ?? '').replace(UNSEEN, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Return a command for a POSIX shell. What stands between the marks is taken as it is. */
export function inCurl(url: string, request: RefinementRequest): string {
  // A line of JSON never is the word JSON alone: line breaks in texts are escaped.
  return `curl -sS ${quoted(`${url}/v1/refinements`)} \\
  -H 'Content-Type: application/json' \\
  \${HONE_API_KEY:+-H "Authorization: Bearer $HONE_API_KEY"} \\
  --data-binary @- <<'JSON'
${jsonOf(request, 2)}
JSON
`;
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Return a program for the Python client. */
export function inPython(url: string, request: RefinementRequest): string {
  return `from hone import Hone

with Hone(${jsonOf(url)}) as hone:  # the key is that of HONE_API_KEY
    refinement = hone.request("POST", "/v1/refinements", json=${pythonOf(request, 4)})
    print(refinement["id"])
    print(hone.wait(refinement["id"]).result.draft)
`;
}

/** Return a literal of Python: the strings of JSON are strings of Python. */
function pythonOf(value: unknown, indent: number): string {
  const inner = ' '.repeat(indent + 4);
  const end = ' '.repeat(indent);
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value !== 'object') return jsonOf(value);
  const parts = Array.isArray(value)
    ? value.map((it) => pythonOf(it, indent + 4))
    : Object.entries(value).map(([name, it]) => `${jsonOf(name)}: ${pythonOf(it, indent + 4)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  if (!parts.length) return `${open}${close}`;
  return `${open}\n${parts.map((it) => `${inner}${it},\n`).join('')}${end}${close}`;
}

/** Return a module for the TypeScript client. */
export function inTypeScript(url: string, request: RefinementRequest): string {
  const { draft = null, ...others } = request;
  return `import { Hone } from 'hone-client';

const hone = new Hone({ url: ${jsonOf(url)} }); // the key is that of HONE_API_KEY
const draft = ${jsonOf(draft)};
const refinement = await hone.submit(draft, ${jsonOf(others, 2)});
console.log(refinement.id);
console.log((await hone.wait(refinement)).result?.draft);
`;
}
