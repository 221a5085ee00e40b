"""Which cell a worker serves."""

import pytest

from app.settings import Settings
from app.store.placement import CellLoad, gives_way, neediest

IDLE = CellLoad(0, ())


def test_workers_that_start_together_go_to_all_cells() -> None:
    cells = dict.fromkeys(range(3), IDLE)
    assert sorted(neediest(cells, "here-", nth) for nth in range(6)) == [0, 0, 1, 1, 2, 2]


def test_a_worker_goes_where_none_is_before_it_goes_where_much_waits() -> None:
    assert neediest({0: CellLoad(1_000, ("a",)), 1: IDLE}, "here-", 0) == 1


def test_a_worker_goes_where_most_waits_for_a_worker() -> None:
    cells = {0: CellLoad(10, ("a",)), 1: CellLoad(90, ("b", "c")), 2: CellLoad(30, ("d",))}
    assert neediest(cells, "here-", 0) == 1


def test_a_worker_that_is_started_again_beside_others_goes_where_it_is_needed() -> None:
    cells = {0: CellLoad(0, ("here-1", "here-2")), 1: IDLE}
    assert neediest(cells, "here-", 2) == 1


def test_one_worker_of_the_fullest_cell_gives_way_to_a_cell_without_any() -> None:
    cells = {0: CellLoad(0, ("a", "b")), 1: IDLE, 2: CellLoad(0, ("c", "d"))}
    assert [gives_way(cells, worker) for worker in "abcd"] == [False, True, False, False]


def test_nobody_gives_way_while_every_cell_has_a_worker_or_none_has_two() -> None:
    assert not gives_way({0: CellLoad(0, ("a", "b")), 1: CellLoad(9, ("c",))}, "b")
    assert not gives_way({0: CellLoad(0, ("a",)), 1: IDLE}, "a")


CLUSTER = "redis+cluster://:x@a,b"


@pytest.mark.parametrize(
    ("url", "cells_url", "third"),
    [
        (CLUSTER, "", f"{CLUSTER}/2"),
        (f"{CLUSTER}?ssl_ca_certs=/ca", "", f"{CLUSTER}/2?ssl_ca_certs=/ca"),
        ("redis://one", CLUSTER, f"{CLUSTER}/2"),
        ("redis://one", "redis://two redis+sentinel://a,b/three", "redis+sentinel://a,b/three"),
    ],
)
def test_a_cell_is_in_the_cluster_or_has_a_url_of_its_own(
    url: str, cells_url: str, third: str
) -> None:
    settings = Settings(redis_url=url, cells=3, cells_url=cells_url)
    assert settings.in_cell(2).redis_url == third
    assert settings.in_cell(0).redis_url == url


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"cells": 2}, "must have 1 URLs for HONE_CELLS=2"),
        ({"cells": 3, "cells_url": "redis://two"}, "must have 2 URLs"),
        ({"cell": 1}, "the last cell is 0"),
    ],
)
def test_cells_without_a_url_are_refused(given: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Settings.model_validate({"redis_url": "redis://one", **given})
