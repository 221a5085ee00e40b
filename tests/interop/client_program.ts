// Submits, streams and reads with the client that @hey-api/openapi-ts generated: `URL`.

import { client } from "./gen/client.gen";
import { listIterations, listRefinements, submitRefinement, watchRefinement } from "./gen/sdk.gen";
import type { RefinementRequest, Snapshot } from "./gen/types.gen";

const request: RefinementRequest = {
  task: "Say it plainly.",
  draft: "It is what it is.",
  max_iterations: 2,
};

async function main(): Promise<void> {
  client.setConfig({ baseUrl: process.argv[2]! });
  const submitted = await submitRefinement({
    body: request,
    headers: { "Idempotency-Key": "once" },
    throwOnError: true,
  });
  let snapshot: Snapshot = submitted.data;
  const path = { refinement_id: snapshot.id };
  let empty = 0;
  const { stream } = await watchRefinement({ path, onSseEvent: (it) => (empty += it.data ? 0 : 1) });
  for await (const event of stream) {
    if (event && "type" in event && event.type === "refinement.completed") snapshot = event.data;
  }
  if (empty) throw new Error(`${empty} events of the stream have no data`);
  const iterations = (await listIterations({ path, throwOnError: true })).data.data;
  const listed = (await listRefinements({ query: { limit: 1 }, throwOnError: true })).data.data;
  const draft = snapshot.result?.draft;
  if (listed[0]?.id !== snapshot.id || !iterations.some((it) => it.draft === draft)) {
    throw new Error("the lists do not have what was submitted");
  }
  console.log(`${snapshot.status} with ${snapshot.result?.score} after ${iterations.length} judged drafts`);
}

void main();
