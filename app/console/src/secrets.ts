/** Requests without the secrets that the API masks. */
const MASKED = '**********';

/** Return a request without what is masked in it or left out, and whether something was masked. A null within a text or schema stays. */
export function withoutSecrets(request: Record<string, unknown>): [Record<string, unknown>, boolean] {
  let isMasked = false;
  const strip = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(strip);
    if (typeof value !== 'object' || value === null) return value;
    const members = Object.entries(value).filter(([, it]) => {
      isMasked ||= it === MASKED;
      return it !== MASKED;
    });
    return Object.fromEntries(members.map(([name, it]) => [name, strip(it)]));
  };
  const { draft, ...rest } = Object.fromEntries(Object.entries(request).filter(([, it]) => it !== null));
  const stripped = strip(rest) as Record<string, unknown>;
  return [draft === undefined ? stripped : { draft, ...stripped }, isMasked];
}
