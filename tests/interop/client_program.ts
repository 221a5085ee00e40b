// Submits, polls and reads with the client that @hey-api/openapi-ts generated: `URL`.

import { client } from "./gen/client.gen";
import { getRefinement, listIterations, listRefinements, submitRefinement } from "./gen/sdk.gen";
import type { RefinementRequest, Snapshot } from "./gen/types.gen";

const ENDED = ["succeeded", "failed", "canceled"];
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
  while (!ENDED.includes(snapshot.status)) {
    const found = await getRefinement({
      path: { refinement_id: snapshot.id },
      query: { wait: 10 },
      headers: { "If-None-Match": `"${snapshot.last_event}"` },
    });
    if (found.response?.status === 200) snapshot = found.data as Snapshot; // or else nothing is new
  }
  const path = { refinement_id: snapshot.id };
  const iterations = (await listIterations({ path, throwOnError: true })).data.data;
  const listed = (await listRefinements({ query: { limit: 1 }, throwOnError: true })).data.data;
  const draft = snapshot.result?.draft;
  if (listed[0]?.id !== snapshot.id || !iterations.some((it) => it.draft === draft)) {
    throw new Error("the lists do not have what was submitted");
  }
  console.log(`${snapshot.status} with ${snapshot.result?.score} after ${iterations.length} judged drafts`);
}

void main();
