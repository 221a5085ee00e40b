"""List ideas, then write a draft from them."""

from app.contract.limits import Limits
from app.contract.requests import ContextDocument
from app.contract.values import value
from hone_ideas.brainstorm import BrainstormStrategy
from workers.engine.asking import ask, question, text_in
from workers.engine.drafting import improve
from workers.engine.prompts import Prompt, PromptRequest, Task, assembled, grounded
from workers.engine.search import Outcome, Search
from workers.engine.sub_search import informed, passes_as_it_is

IDEAS_VERSION = 1
IDEAS = """\
You list ideas for the text that the task asks for: what it could say, and in which order.
Give one line to each idea. {grounded}
Answer with the list alone: no preamble, no comment."""


@value(slots=True)
class ListIdeas(PromptRequest):
    """List `count` ideas for a text."""

    count: int

    def prompt(self) -> Prompt:
        words = IDEAS.format(grounded=grounded(self.task))
        return assembled(self.task, "ideas", IDEAS_VERSION, words, f"List {self.count} ideas.")


async def brainstorm(task: Task, limits: Limits, plan: BrainstormStrategy) -> Outcome:
    """List ideas, then draft, critique and revise with the ideas in the context."""
    with Search.of(task, limits) as search:
        if await passes_as_it_is(task, search):
            return search.outcome()
        asked = question("ideas", "generator", ListIdeas(task, plan.ideas))
        ideas = await ask(asked, text_in, "empty_ideas")
        task = informed(task, (ContextDocument(name="Ideas", text=ideas),))
        await improve(task, search)
    return search.outcome()
