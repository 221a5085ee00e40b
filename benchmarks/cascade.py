"""python -m benchmarks.cascade [--threshold 0.7]: what a cascade saves, by `hone compare`.

The models are those of the simulation, behind a model server: a cheap one that revises as `fair`
and a strong one that revises as `steady`, which costs 20 times as much by the list of prices. They
draw their luck from the text and the step, so that every run finds the same. A service is started
for the run. Every call takes 1,000 tokens of input and 500 of output.
"""

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from app.local.embedded import EmbeddedRedis
from benchmarks.contenders import LOCAL, Setup, start_hone
from benchmarks.model_replies import AskedPrompt, ModelServerReply, between_marks, chat
from benchmarks.model_server import ScriptedModelServer
from benchmarks.processes import without_settings
from benchmarks.simulation.world import REVISERS, Critic, Reviser, World

CHEAP, STRONG, CRITIC = "openai:gpt-6-luna", "openai:gpt-6.1-sol", "openai:gpt-5-mini"
STEADY, FAIR, _ = REVISERS
WRITING: Mapping[str, Reviser] = {CHEAP: FAIR, STRONG: STEADY}
NOISY = Critic("sd 0.05", sigma=0.05)
DRAFT = re.compile(r"<draft \S+>\n(.*?)\n</draft", re.DOTALL)
SEED = re.compile(r"written at (\d+)")
USAGE = {"prompt_tokens": 1_000, "completion_tokens": 500, "total_tokens": 1_500}
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "cheap": {"generator": CHEAP},
    "cascade": {"generator": [CHEAP, STRONG], "escalate": "when_stuck"},
    "strong": {"generator": STRONG},
}


def simulated(asked: AskedPrompt) -> ModelServerReply:
    """Revise or judge the draft of a prompt as the model that is asked for."""
    call = asked.json
    model, prompt = f"openai:{call['model']}", call["messages"][-1]["content"]
    text = DRAFT.findall(prompt)[-1]
    found = SEED.search(text)
    assert found is not None
    step = (asked.header("Idempotency-Key") or "").partition("/")[2]
    world = World(int(found[1]), WRITING.get(model, FAIR), NOISY)
    if model in WRITING:
        revised = world.revise(f"{found[1]} {step}", text)
        return between_marks(chat(revised, model=call["model"], usage=USAGE), asked)
    score = world.score(f"{step} {text}", text)
    said = {"evidence": [], "reason": "It is so.", "score": round(score, 6)}
    lists: dict[str, list[str]] = {"strengths": [], "weaknesses": [], "suggestions": []}
    verdict = json.dumps({"scores": {"c1": said}, **lists, "findings": []})
    return chat(verdict, model=call["model"], usage=USAGE)


def write_files(folder: Path, texts: int, threshold: float) -> list[str]:
    """Write texts, settings and the judge; return the options of `hone compare`."""
    with (folder / "texts.jsonl").open("w") as lines:
        for seed in range(texts):
            draft = World(seed, FAIR, NOISY).write(str(seed))
            lines.write(json.dumps({"draft": draft}) + "\n")
    judged = {"criteria": [{"name": "quality"}], "threshold": threshold}
    options = ["--texts", f"{folder}/texts.jsonl"]
    for name, models in SETTINGS.items():
        setting = {**judged, "max_iterations": 8, "models": {**models, "critic": CRITIC}}
        (folder / f"{name}.json").write_text(json.dumps(setting))
        options += ["--setting", f"{name}={folder}/{name}.json"]
    judge = {**judged, "models": {"critic": CRITIC}}
    (folder / "judge.json").write_text(json.dumps(judge))
    return [*options, "--judge", f"{folder}/judge.json"]


async def compared(folder: Path, texts: int, threshold: float) -> int:
    """Start everything, run `hone compare`, and return its exit code."""
    async with ScriptedModelServer(simulated) as models:
        with ExitStack() as stack:
            redis = stack.enter_context(EmbeddedRedis(folder / "redis"))
            port, _ = start_hone(Setup(models.url, redis.url, folder, texts, stack))
            options = write_files(folder, texts, threshold)
            command = (sys.executable, "-m", "app.cli", "compare", *options)
            env = without_settings() | {"HONE_SERVER": f"http://{LOCAL}:{port}"}
            run = await asyncio.create_subprocess_exec(*command, env=env, cwd=folder)
            return await run.wait()


def main() -> int:
    """Print what `hone compare` finds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--threshold", type=float, default=0.7)
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="hone-cascade-") as folder:
        return asyncio.run(compared(Path(folder), asked.texts, asked.threshold))


if __name__ == "__main__":
    sys.exit(main())
