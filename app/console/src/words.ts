/** The words for statuses, errors, waits and caveats. A code of a later release has none. */

export const STATUSES: Record<string, string> = {
  queued: 'It waits for a worker.',
  running: 'It is in progress.',
  paused: 'It waits for a person and occupies no worker.',
  canceling: 'It is being canceled: the steps in progress are being stopped.',
  succeeded: 'It has ended.',
  failed: 'It could not continue.',
  canceled: 'It was canceled.',
};

const AGAIN = 'Retry it: what is recorded is neither done nor paid again.';
const OTHER_MODEL = 'Retry it, or submit it with another model: this one does not reply in the form that is needed.';

/** What to do about an error that ended a refinement. */
export const FIXES: Record<string, string> = {
  budget_exhausted: 'Retry it with a larger budget.',
  content_filtered: 'Change the task or the text, or submit it with a model of another provider.',
  empty_answer: OTHER_MODEL,
  empty_draft: OTHER_MODEL,
  empty_summary: OTHER_MODEL,
  empty_step: OTHER_MODEL,
  empty_text: OTHER_MODEL,
  finished_early: AGAIN,
  incompatible: 'Submit its request again: this version of Hone would not repeat the steps of the other one.',
  internal_error: 'See the log of the worker, then retry it.',
  model_refused: 'Correct the name of the model, its API key or its settings; then retry it.',
  model_unavailable: 'Check that the server of the model works, then retry it; fallbacks help next time.',
  nothing_judged: 'Retry it with a larger budget or more seconds.',
  poisoned: 'See the log of the worker for what ended its process, then retry it.',
  prompt_too_long: 'Submit it with less context, with the strategy nested, or with a model that takes longer texts.',
  reply_overlong: 'Submit it with another model, or part by part: with the strategy nested.',
  reply_cut_off: 'Submit it with a larger max_output_tokens for that role, or with shorter texts.',
  reply_refused: 'Change the task or the text, or submit it with another model.',
  unknown_model: 'Submit it again with another model: its server has none of that name.',
  unreadable_comparison: OTHER_MODEL,
  unreadable_criteria: OTHER_MODEL,
  unreadable_critique: OTHER_MODEL,
  unreadable_draft: OTHER_MODEL,
  unreadable_plan: OTHER_MODEL,
  unreadable_reply: 'Check that the server of the model speaks the configured protocol, then retry it.',
  unreadable_outline: OTHER_MODEL,
  unreadable_steps: OTHER_MODEL,
  unreadable_verification: OTHER_MODEL,
  unreadable_vote: OTHER_MODEL,
  unusable_passages: OTHER_MODEL,
  unusable_edits: OTHER_MODEL,
  validator_unavailable: 'Check the endpoint or the resource of the validator, then retry it.',
};

export const fixOf = (code: string): string => FIXES[code] ?? AGAIN;

const WAITS: Record<string, string> = {
  rate_limited: 'takes no more calls at this rate',
  overloaded: 'is overloaded',
  slow: 'has not answered the calls in progress yet',
  unreachable: 'cannot be reached',
  unauthorized: 'refuses the API key',
  quota_exhausted: 'has no credit left',
  tenant_quota: 'is used up for the day',
  error: 'answers with errors',
};

/** The model or endpoint of a wait, without whose key it is called with. */
const calledName = (model: string): string =>
  model.replace(/^own:[^:]*:/, '').replace(/^quota:(.*)/, 'the quota of $1');

/** What is waited for, and why, for the middle of a sentence. */
export const waitOf = (of: { model: string; reason: string }): string =>
  `${calledName(of.model)}, which ${WAITS[of.reason] ?? of.reason.replaceAll('_', ' ')}`;

export const CAVEATS: Record<string, string> = {
  stage_given_up: 'Given up: a stage, pass or part was not finished',
  goal_not_met: 'Goal not met',
  unverified: 'Not verified: what the draft says was not proven right or wrong',
  validator_skipped: 'Not checked: a validator did not run on the draft',
  text_missing: 'No text',
  item_dropped: 'Left out: something could not be used',
  lower_score: 'Lower score: another draft scored more',
  forgeable: 'Can be forged: a hostile draft could have forged the verdict of its tests',
  summarized: 'By summaries: the whole is too long for one prompt',
};

export const SCORES_FROM: Record<string, string> = {
  critique: 'the weighted mean of the criteria, as critics judged them',
  validators: 'the share of validators that pass, or the score of one',
  agreement: 'the share of samples with the same answer',
  parts: 'the lowest score of a part; the whole could not be judged',
  review: 'the score of a reviewer',
};

export const TIMEOUTS: Record<string, string> = {
  approve: 'the draft counts as approved',
  reject: 'the draft counts as rejected',
  finish: 'it ends with the best draft',
  resume: 'it continues',
};

/** What a reviewer decides. */
export const ACTIONS: Record<string, string> = {
  approve: 'approved',
  reject: 'rejected',
  revise: 'a revision was asked for',
  replace: 'replaced by another text',
  rate: 'scored',
  resume: 'it goes on',
};
