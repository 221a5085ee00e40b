/** A table of what the server lists, page by page, which a spreadsheet reads too. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { hone } from './api.js';
import { download, Failure, Loading, Name, useLoaded } from './parts.js';

/** A column: its name, what the file has, and the page unless `draw` says more. */
export interface Column<Row> {
  name: string;
  value: (of: Row) => string | number | null | undefined;
  draw?: (of: Row) => ComponentChildren;
  isNumber?: boolean;
  /** Where it stands, if not in both: the page has buttons, and joins names to ids. */
  only?: 'page' | 'file';
}

interface Shown<Row> {
  of: readonly Row[];
  columns: Column<Row>[];
  /** The name of the file, without its ending. */
  file: string;
  /** Return all rows, where the page shows the first ones. */
  all?: () => Promise<readonly Row[]>;
  caption?: string;
}

export function Listing<Row>({ of, columns, file, all, caption }: Shown<Row>) {
  const [failure, setFailure] = useState<unknown>();
  const shown = columns.filter((it) => it.only !== 'file');
  const save = async () => {
    setFailure(undefined);
    try {
      download(`${file}.csv`, [csvOf(all ? await all() : of, columns)], 'text/csv');
    } catch (thrown) {
      setFailure(thrown);
    }
  };
  return (
    <>
      <table class="rows listing">
        {caption && <caption class="unseen">{caption}</caption>}
        <thead>
          <tr>
            {shown.map((it) => (
              <th class={it.isNumber ? 'number' : undefined}>{it.name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {of.map((row) => (
            <tr>
              {shown.map((it, at) => (
                <td class={it.isNumber ? 'number' : undefined} data-name={at && !it.only ? it.name : undefined}>
                  {it.draw ? it.draw(row) : it.isNumber ? counted(it.value(row)) : <Name of={String(it.value(row) ?? '–')} />}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <p>
        <button onClick={() => void save()}>Download CSV</button>
      </p>
      {failure !== undefined && <Failure of={failure} />}
    </>
  );
}

const counted = (value: string | number | null | undefined): string => (typeof value === 'number' ? value.toLocaleString('en') : (value ?? '–'));

/** Return rows as CSV (RFC 4180). What a spreadsheet would take for a formula is a text. */
function csvOf<Row>(rows: readonly Row[], columns: Column<Row>[]): string {
  const shown = columns.filter((it) => it.only !== 'page');
  const cell = (value: string | number | null | undefined) => {
    const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? '');
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [shown.map((it) => it.name), ...rows.map((row) => shown.map((it) => it.value(row)))];
  return lines.map((it) => `${it.map(cell).join(',')}\r\n`).join('');
}

interface Page<Row> {
  data: Row[];
  has_more?: boolean;
  next_cursor?: string | null;
}

const FIRST = 50;
const MOST = 1_000;

interface Listed<Row> extends Omit<Shown<Row>, 'of' | 'all'> {
  path: string;
  /** Counts up when something has changed. */
  version?: number;
  /** Said where there is nothing. */
  children: ComponentChildren;
}

/** A list of the API: its first entries, all of them on demand. */
export function Listed<Row>({ path, version = 0, children, ...table }: Listed<Row>) {
  const [most, setMost] = useState(FIRST);
  const { value, failure } = useLoaded((signal) => hone.request<Page<Row>>(path, { query: { limit: `${most}` }, signal }), [path, version, most]);
  if (!value) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  return (
    <>
      {failure !== undefined && <Failure of={failure} />}
      {value.data.length ? <Listing of={value.data} all={() => readAll<Row>(path)} {...table} /> : children}
      {value.has_more && most < MOST && <button onClick={() => setMost(MOST)}>Show more</button>}
      {value.has_more && most === MOST && <p class="quiet">The first {MOST.toLocaleString('en')} are shown; the file has all.</p>}
    </>
  );
}

async function readAll<Row>(path: string): Promise<Row[]> {
  const found: Row[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await hone.request<Page<Row>>(path, { query: { limit: `${MOST}`, cursor } });
    found.push(...page.data);
    if (!page.next_cursor) return found;
    cursor = page.next_cursor;
  }
}
