// Requests of the types that openapi-typescript writes: what has a default may be left out.

import type { paths } from "./types";

type Body<Path extends "/v1/refinements" | "/v1/estimates"> =
  paths[Path]["post"]["requestBody"]["content"]["application/json"];
type Events = paths["/v1/refinements/{refinement_id}/events"]["get"]["responses"][200]["content"];

export const smallest: Body<"/v1/refinements"> = { draft: "It is what it is." };
export const larger: Body<"/v1/estimates"> = {
  task: "Say it plainly.",
  strategy: { kind: "iterative" },
  criteria: [{ name: "clarity" }],
  validators: [{ kind: "length", max_words: 100 }],
  stop: { max_tokens: 9_000 },
  webhook: { url: "https://example.com/hone" },
};
export const typeOf = (event: Events["text/event-stream"]): string => ("type" in event ? event.type : "step.delta");
