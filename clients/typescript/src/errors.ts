import type { Result } from './results.js';
import type { Snapshot } from './schema.js';

/** What all errors of this client are. */
export class HoneError extends Error {
  override name = this.constructor.name;
}

/** The server has not answered, after all retries. What was sent may have arrived. */
export class ServerUnreachable extends HoneError {}

/** It has not ended in time; it goes on. */
export class TimedOut extends HoneError {}

/** The answer is not that of a Hone server: the address leads to another program. */
export class NotHone extends HoneError {
  constructor(server: string, detail = '') {
    super(`the response of ${server} is not that of a Hone server${detail && `: ${detail}`}`);
  }
}

export interface Problem {
  code?: string;
  title?: string;
  detail?: string;
  errors?: { pointer: string; detail: string }[] | null;
}

/**
 * The server refuses (RFC 9457). `detail` says what to change, `errors` names each wrong field, and
 * `requestId` finds the request in the logs of the server. There is a class per `code`.
 */
export class ApiError extends HoneError {
  readonly code: string;
  readonly detail: string;
  readonly errors: { pointer: string; detail: string }[];

  constructor(
    readonly status: number,
    problem: Problem,
    readonly requestId: string | null = null,
    /** Milliseconds that the server asks to wait before the request is repeated. */
    readonly retryAfter = 0,
  ) {
    const errors = Array.isArray(problem.errors) ? problem.errors.filter((it) => it && typeof it === 'object') : [];
    const detail = String(problem.detail ?? '');
    const places = new Map<string, string[]>(); // of each sentence about fields that the detail does not have
    for (const it of errors.filter((it) => !detail.includes(it.detail))) {
      places.set(it.detail, [...(places.get(it.detail) ?? []), ...(it.pointer ? [it.pointer] : [])]);
    }
    const wrong = [...places].map(([said, where]) => `  ${where.join(', ')}${where.length ? ': ' : ''}${said}`);
    super([`${problem.title ?? status}: ${detail}`, ...wrong].join('\n'));
    this.code = problem.code ?? '';
    this.detail = detail;
    this.errors = errors;
  }
}

/** A field of the request is wrong: `errors` names it. */
export class InvalidRequest extends ApiError {}
/** The key was used with another body. */
export class IdempotencyMismatch extends ApiError {}
/** A cursor or header cannot be read. */
export class MalformedHeader extends ApiError {}
/** The server requires an API key, and this is none. */
export class Unauthenticated extends ApiError {}
/** The key lacks the scope, or others are asked to decide the review. */
export class Forbidden extends ApiError {}
/** It does not exist, was erased, or belongs to somebody else. */
export class NotFound extends ApiError {}
/** There is no such representation. */
export class NotAcceptable extends ApiError {}
/** Not possible in the current status. */
export class Conflict extends ApiError {}
/** The text was not to be stored (`store: false`) and is gone. */
export class NotStored extends ApiError {}
/** It has changed since the version that was named: look, and decide again. */
export class PreconditionFailed extends ApiError {}
/** The body is larger than the server takes. */
export class TooLarge extends ApiError {}
/** The server does not serve this host name. */
export class Misdirected extends ApiError {}
/** Too many requests, after all retries. */
export class RateLimited extends ApiError {}
/** A quota of the tenant is used up. */
export class QuotaExceeded extends ApiError {}
/** The queue or the memory of the service is full, after all retries. */
export class Overloaded extends ApiError {}
/** The service does not reach its Redis, after all retries. */
export class Unavailable extends ApiError {}

export const CLASSES: Record<string, typeof ApiError> = {
  invalid_request: InvalidRequest,
  idempotency_mismatch: IdempotencyMismatch,
  malformed_header: MalformedHeader,
  unauthenticated: Unauthenticated,
  forbidden: Forbidden,
  not_found: NotFound,
  not_acceptable: NotAcceptable,
  conflict: Conflict,
  not_stored: NotStored,
  precondition_failed: PreconditionFailed,
  too_large: TooLarge,
  misdirected: Misdirected,
  rate_limited: RateLimited,
  quota_exceeded: QuotaExceeded,
  overloaded: Overloaded,
  unavailable: Unavailable,
};

/** `refine` waited for a refinement that has no result to return. */
export class Ended extends HoneError {
  /** `snapshot.result` has the best draft that was judged, if one was. */
  constructor(readonly snapshot: Snapshot) {
    const error = snapshot.error;
    super(`${snapshot.id}: ${error ? `${error.code}: ${error.detail}` : (snapshot.reason ?? snapshot.status)}`);
  }
}

/** The refinement failed; `retry` goes on from its journal. */
export class RefinementFailed extends Ended {}
/** Somebody canceled the refinement. */
export class RefinementCanceled extends Ended {}
/** The best draft does not meet what was asked; the message says why, and `result` is the draft. */
export class NotPassed extends Ended {
  constructor(
    snapshot: Snapshot,
    readonly result: Result,
  ) {
    super(snapshot);
  }
}
/** Do not trust this webhook: answer 400. */
export class WebhookRejected extends HoneError {}
