"""`GET /v1/statistics?of=insights`, and how its figures follow from what refinements added."""

from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from app.contract.judgement import Usage
from app.contract.statistics import (
    LONGEST_VALUE,
    Dimension,
    Insight,
    Key,
    Sums,
    insights_of,
    ranked,
    t_95,
)
from app.contract.status import Status
from app.service.report import gains_in
from app.store import WorkerStore
from app.store.redis import keys
from app.store.statistics import insight_additions
from tests.api.api_client import problem, submitted
from tests.api.test_gains import two_revisions
from tests.store.store_harness import COMPLETED, SUCCEEDED, count_ended
from tests.waiting import today

NAMED = ("criterion 0", "criterion 1")


def added_by(*changes: float) -> Sums:
    """Return what a refinement adds whose drafts changed the score so, and were all kept."""
    count, total = len(changes), sum(changes)
    squares = (total, total**2, total * count)
    return Sums(1, count, count**2, *squares, *squares, count, 2 * count, 0, 3 * count)


def insight(*added: Sums) -> Insight:
    return Insight.of(Dimension.STEP, "revision", sum(added, Sums()))


def test_a_mean_has_the_interval_of_students_t() -> None:
    found = insight(added_by(0.1), added_by(0.2), added_by(0.3))
    assert found.gain == found.change
    assert (found.gain.mean, found.refinements, found.cases, found.kept) == (0.2, 3, 3, 1)
    half = 4.3027 * 0.1 / 3**0.5  # t with 2 degrees of freedom, and the standard error
    assert (found.gain.low, found.gain.high) == (round(0.2 - half, 4), round(0.2 + half, 4))


def test_drafts_of_one_refinement_are_not_taken_for_independent_cases() -> None:
    found = insight(added_by(0.3, 0.1), added_by(0.1))
    mean = 0.5 / 3
    error = (2 * ((0.4 - 2 * mean) ** 2 + (0.1 - mean) ** 2)) ** 0.5 / 3
    assert found.gain.mean == round(mean, 4)
    assert found.gain.high == round(mean + 12.7062 * error, 4)


def test_one_refinement_alone_has_no_interval() -> None:
    found = insight(added_by(0.3, 0.1))
    assert (found.gain.mean, found.gain.low, found.gain.high) == (0.2, None, None)


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.7062), (4, 2.7764), (5, 2.5706), (30, 2.0423), (10**6, 1.96)]
)
def test_the_quantile_of_students_t_is_that_of_the_tables(freedom: int, quantile: float) -> None:
    assert t_95(freedom) == pytest.approx(quantile, abs=0.0003)


def test_the_cost_of_a_case_is_the_mean_of_those_whose_price_is_known() -> None:
    priced = Sums(refinements=2, cases=4, calls=8, tokens=400, seconds=6, priced=2, cost_usd=0.01)
    mean = insight(priced).mean_usage
    assert (mean.calls, mean.tokens, mean.seconds, mean.cost_usd) == (2, 100, 1.5, 0.005)
    assert insight(priced._replace(priced=0, cost_usd=0)).mean_usage.cost_usd is None


def test_the_highest_gains_of_each_grouping_come_first() -> None:
    sums: dict[Key, Sums] = {(Dimension.MODEL, f"m{n}"): added_by(n / 10) for n in range(5)}
    sums[Dimension.STRATEGY, "iterative"] = added_by(0.0)
    assert [it.value for it in ranked(sums, 2)] == ["iterative", "m4", "m3"]


def of_two_revisions() -> dict[Key, Sums]:
    gains = gains_in(two_revisions().told("iterations/2"))
    usage = Usage(calls=6, input_tokens=540, output_tokens=60, cost_usd=0.012, seconds=9)
    return dict(insights_of(gains, "iterative", usage, NAMED))


def test_a_refinement_adds_its_drafts_under_everything_that_made_them() -> None:
    sums = of_two_revisions()
    kept = Sums(1, 1, 1, 0.2, 0.04, 0.2, 0.2, 0.04, 0.2, 1, 2, 200, 3, 1, 0.004)
    unkept = Sums(1, 1, 1, -0.2, 0.04, -0.2, 0, 0, 0, 0, 2, 200, 3, 1, 0.004)
    both = Sums(1, 2, 4, 0, 0, 0, 0.2, 0.04, 0.4, 1, 4, 400, 6, 2, 0.008)
    whole = kept._replace(calls=6, tokens=600, seconds=9, cost_usd=0.012)
    first = both._replace(change=0.3, change_squared=0.09, change_by_cases=0.6)
    second = both._replace(change=-0.3, change_squared=0.09, change_by_cases=-0.6)
    expected = {
        (Dimension.STRATEGY, "iterative"): whole,
        (Dimension.STEP, "revision"): both,
        (Dimension.MODEL, "openai:m2"): kept,
        (Dimension.MODEL, "openai:m3"): unkept,
        (Dimension.CRITIC, "openai:judge"): both,
        (Dimension.CRITERION, "criterion 0"): first._replace(
            gain=0.4, gain_squared=0.16, gain_by_cases=0.8
        ),
        (Dimension.CRITERION, "criterion 1"): second._replace(
            gain=0, gain_squared=0, gain_by_cases=0
        ),
    }
    assert sums.keys() == expected.keys()
    for key, added in expected.items():
        assert sums[key] == pytest.approx(added), key


def test_criteria_that_the_request_did_not_name_are_left_out() -> None:
    gains = gains_in(two_revisions().told())
    sums = insights_of(gains, "iterative", Usage(), NAMED[1:])
    found = [value for by, value in sums if by is Dimension.CRITERION]
    assert found == ["criterion 1"]


def test_no_longer_name_than_said_is_kept() -> None:
    story = two_revisions()
    story.asked("iterations/4/revise", "openai:" + "m" * 200)
    story.judged("iterations/4", "iterations/3", 0.4, 0.4)
    sums = insights_of(gains_in(story.told()), "iterative", Usage(), NAMED)
    assert max(len(value) for _, value in sums) == LONGEST_VALUE


async def ended(api: httpx.AsyncClient, worker: WorkerStore, **days_ago: Sums) -> None:
    """Let a refinement succeed that adds these sums of revisions, on days so long ago."""
    refinement_id = await submitted(api)
    claimed = await worker.claim(refinement_id, f"{refinement_id}-1", "worker-1")
    assert claimed is not None
    additions = [
        replace(
            addition,
            key=keys.statistics("insights", "default", today() - timedelta(days=int(name[1:]))),
        )
        for name, sums in days_ago.items()
        for addition in insight_additions(
            {(Dimension.STEP, "revision"): sums, (Dimension.MODEL, "openai:m"): sums}
        )
    ]
    await worker.journal(claimed).append(
        [COMPLETED], SUCCEEDED, to=Status.SUCCEEDED, additions=additions
    )
    await count_ended(worker)


async def test_the_sums_of_many_days_are_shown_together(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    await ended(api, worker, d0=added_by(0.1), d40=added_by(0.2))
    await ended(api, worker, d0=added_by(0.3), d200=added_by(0.9))
    day = today()
    found = (await api.get("/v1/statistics?of=insights")).json()
    assert found["since"] == (day - timedelta(days=89)).isoformat()
    model, step = found["data"]
    assert (model["by"], model["value"], step["by"]) == ("model", "openai:m", "step")
    assert (step["cases"], step["refinements"], step["gain"]["mean"]) == (3, 3, 0.2)


async def test_insights_are_selected_by_grouping_and_first_day(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    await ended(api, worker, d1=added_by(0.1), d40=added_by(0.3))
    since = (today() - timedelta(days=7)).isoformat()
    found = (
        await api.get("/v1/statistics", params={"of": "insights", "by": "step", "since": since})
    ).json()
    assert found["since"] == since
    assert [(it["by"], it["cases"], it["gain"]["mean"]) for it in found["data"]] == [
        ("step", 1, 0.1)
    ]


@pytest.mark.parametrize("query", ["by=mood", "since=yesterday", "since=0", "limit=0"])
async def test_a_selection_that_cannot_be_read_is_rejected(
    api: httpx.AsyncClient, query: str
) -> None:
    found = problem(await api.get(f"/v1/statistics?of=insights&{query}"), 422, "invalid_request")
    assert query.partition("=")[0] in found["detail"]


async def test_without_refinements_there_are_no_insights(api: httpx.AsyncClient) -> None:
    assert (await api.get("/v1/statistics?of=insights&since=2999-01-01")).json()["data"] == []
