"""The report of a refinement that went through everything, over real HTTP."""

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, critique
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import answering
from tests.e2e.test_reviews import say, until_asked
from tests.engine.scripted_replies import preference

SCORES = {"critique/reader": "0.9", "critique/lawyer": "0.5"}
WISHES = {
    "critics": {"panel": [{"name": "reader"}, {"name": "lawyer", "adversarial": True}]},
    "review": {"when": "before_completion"},
    "compare": True,
    "outputs": [{"name": "subject", "instructions": "A subject line."}],
    "max_iterations": 1,
}


def played(key: str, _asked: AskedPrompt) -> ModelServerReply | None:
    """A panel that disagrees, and a critic who prefers the result wherever it stands."""
    later = {
        "compare/1": preference("B"),
        "compare/2": preference("A"),
        "outputs/subject": "Your `refund`",
    }
    if key in later:
        return chat(later[key])
    score = SCORES.get(key.removeprefix("iterations/1/"))
    return chat(critique(1, "quality").replace("0.4", score)) if score else None


async def test_a_report_tells_of_panel_review_comparison_and_outputs(
    service: RunningService,
) -> None:
    service.models.behaviour = answering(played)
    refinement_id = await service.submit(**WISHES, draft="Refunds take some time.")
    await until_asked(service, refinement_id, "reviews/1")
    await say(service, refinement_id, action="approve", feedback="Good enough.")
    ended = await service.ended(refinement_id)
    url = ended["links"]["report"]
    markdown = (await service.client.get(url)).text
    assert "; a reviewer approved it as it is." in markdown.partition("## The result")[0]
    assert "- Critic `lawyer`, adversarial" in markdown
    assert "quality 0.70 (spread 0.40)" in markdown
    assert "A reviewer approved the draft.\n\n```text\nGood enough.\n```" in markdown
    assert "The result is better than the draft it started from, in both orders." in markdown
    assert "\n-Refunds take some time.\n" in markdown.partition("```diff\n")[2]
    assert "### Output: `subject`\n\n```text\nYour `refund`\n```" in markdown
    assert f"| model calls | {ended['usage']['calls']} |" in markdown
    assert "| `reviews/1` |" not in markdown
