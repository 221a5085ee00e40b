"""The refinement as LangGraph's users write it: three nodes, and an edge that decides.

LangGraph's server plays `graph`, with the model whose URL is in `MODEL_URL`. The server is the one
for development, which installs from the package index and needs no licence: it keeps threads in
memory, and writes them into files every few seconds.
"""

import os
from typing import Any, TypedDict

from langgraph.graph import (  # type: ignore[import-not-found]
    END,
    START,
    StateGraph,
)

from benchmarks.loop import (
    MAX_ITERATIONS,
    THRESHOLD,
    WRITING,
    AskModel,
    judging,
    revising,
    text_of,
    verdict_of,
)
from benchmarks.peers.telling import LateClient


class GraphState(TypedDict, total=False):
    """What the nodes exchange, which a checkpoint stores after each."""

    draft: str
    score: float
    reason: str
    iteration: int


def refining(ask: AskModel) -> Any:
    """Return the graph, not compiled yet."""

    async def write(_: GraphState) -> GraphState:
        return {"draft": text_of(await ask(WRITING)), "iteration": 1}

    async def judge(state: GraphState) -> GraphState:
        score, reason = verdict_of(await ask(judging(state["draft"])))
        return {"score": score, "reason": reason}

    async def revise(state: GraphState) -> GraphState:
        reply = await ask(revising(state["draft"], state["reason"]))
        return {"draft": text_of(reply), "iteration": state["iteration"] + 1}

    def next_of(state: GraphState) -> str:
        is_over = state["score"] >= THRESHOLD or state["iteration"] == MAX_ITERATIONS
        return str(END) if is_over else "revise"

    graph = StateGraph(GraphState)
    for node in (write, judge, revise):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "write")
    graph.add_edge("write", "judge")
    graph.add_conditional_edges("judge", next_of, ["revise", END])
    graph.add_edge("revise", "judge")
    return graph


graph = refining(LateClient(os.environ["MODEL_URL"]).ask).compile()
