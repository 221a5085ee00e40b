// The same workflow with Restate's SDK for TypeScript; arguments: port, model's URL, prompts as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [port, modelUrl, promptsFile, modules] = process.argv.slice(2);
const restate = createRequire(`${modules}/`)("@restatedev/restate-sdk");
const prompts = JSON.parse(readFileSync(promptsFile, "utf8"));
const headers = { "Content-Type": "application/json", Authorization: "Bearer key" };

async function ask({ messages: [system, user], ...rest }, draft, reason) {
  const content = user.content
    .replace("DRAFT-HERE", () => draft)
    .replace("REASON-HERE", () => reason);
  const body = JSON.stringify({ ...rest, messages: [system, { ...user, content }] });
  const reply = await fetch(`${modelUrl}/chat/completions`, { method: "POST", headers, body });
  return await reply.json();
}

const refinement = restate.workflow({
  name: "Refinement",
  handlers: {
    run: async (ctx, _request) => {
      const call = async (...prompt) => {
        const reply = await ctx.run("call", () => ask(...prompt));
        return reply.choices[0].message.content;
      };
      let draft = await call(prompts.write);
      for (let iteration = 1; ; iteration += 1) {
        const judged = JSON.parse(await call(prompts.judge, draft));
        const [{ score, reason }] = Object.values(judged.scores);
        if (score >= prompts.threshold || iteration === prompts.maxIterations) return score;
        draft = await call(prompts.revise, draft, reason);
      }
    },
  },
});

restate.serve({ services: [refinement], port: Number(port) });
