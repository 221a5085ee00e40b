"""LangGraph's library with its checkpoints in SQLite, as its documentation begins.

There is no queue and no service: if the process dies, somebody has to know which threads had begun
and resume them. `durability="sync"` stores a checkpoint before the next node begins.
"""

import argparse

import uvloop
from langgraph.checkpoint.sqlite.aio import (  # type: ignore[import-not-found]
    AsyncSqliteSaver,
)

from benchmarks.peers.langgraph_graph import refining
from benchmarks.peers.telling import model_calls, play_all


async def run(database: str, model_url: str, count: int, at_once: int) -> None:
    """Run `count` refinements, at most `at_once` at a time."""
    async with AsyncSqliteSaver.from_conn_string(database) as saver, model_calls(model_url) as ask:
        graph = refining(ask).compile(checkpointer=saver)
        await saver.setup()

        async def refine(number: int) -> None:
            thread = {"configurable": {"thread_id": str(number)}}
            ended = await graph.ainvoke({}, thread, durability="sync")
            if (ended["iteration"], ended["score"]) != (4, 0.95):
                raise RuntimeError(f"ended with {ended}")

        await play_all(refine, count, at_once)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--at-once", type=int, required=True)
    given = parser.parse_args()
    uvloop.run(run(given.database, given.model, given.count, given.at_once))
