# /// script
# requires-python = ">=3.11"
# dependencies = ["matplotlib"]
# ///
"""Draw the board of hone.json from a Prometheus, without Grafana.

    python picture.py http://127.0.0.1:9090 10 board.png        the last ten minutes

Titles, places, queries, legends and units are those of the board; Prometheus answers each query.
matplotlib draws them, which is no dependency of Hone.
"""

import argparse
import io
import json
import re
import time
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from matplotlib import dates, style
from matplotlib.figure import Figure
from PIL import Image

BOARD = Path(__file__).with_name("hone.json")
RATE_INTERVAL = "30s"
POINTS = 160
COLUMNS, ROW_HEIGHT = 24, 8
UNITS = {"s": " (s)", "currencyUSD": " (USD)"}
COLOURS = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#37872d", "#fade2a")


def series(url: str, query: str, since: float, until: float) -> list[dict[str, Any]]:
    """Return what Prometheus answers to a query of the board."""
    asked = {
        "query": query.replace("$__rate_interval", RATE_INTERVAL),
        "start": since,
        "end": until,
        "step": (until - since) / POINTS,
    }
    with urlopen(f"{url}/api/v1/query_range?{urlencode(asked)}") as answer:  # noqa: S310
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return found


def legend(form: str, labels: dict[str, str]) -> str:
    """Return the name of a series, as the board forms it."""
    return re.sub(r"{{(\w+)}}", lambda it: labels.get(it[1], ""), form)


def draw(panel: dict[str, Any], axes: Any, url: str, since: float, until: float) -> None:
    """Draw one panel."""
    drawn = 0
    for target in panel["targets"]:
        for it in series(url, target["expr"], since, until):
            points = [(float(at), float(value)) for at, value in it["values"]]
            times = [at / 86_400 for at, _ in points]
            colour = COLOURS[drawn % len(COLOURS)]
            name = legend(target.get("legendFormat", ""), it["metric"])
            axes.plot(times, [value for _, value in points], color=colour, lw=1.1, label=name)
            drawn += 1
    unit = UNITS.get(panel.get("fieldConfig", {}).get("defaults", {}).get("unit", ""), "")
    axes.set_title(panel["title"] + unit, loc="left", fontsize=9)
    axes.set_facecolor("#181b1f")
    axes.set_xlim(since / 86_400, until / 86_400)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))
    axes.xaxis.set_major_locator(dates.MinuteLocator(interval=ceil((until - since) / 420)))
    axes.tick_params(labelsize=7)
    axes.grid(color="#2c3235", lw=0.5)
    if drawn:
        axes.legend(fontsize=5.5, ncols=2, loc="upper left", frameon=False)


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("minutes", type=float)
    parser.add_argument("out", type=Path)
    parser.add_argument("--until", type=float, default=time.time(), help="seconds since 1970")
    wanted = parser.parse_args()
    panels = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    rows = max(it["gridPos"]["y"] for it in panels) // ROW_HEIGHT + 1
    columns = COLUMNS // panels[0]["gridPos"]["w"]
    style.use("dark_background")
    figure = Figure(figsize=(16, 2.5 * rows), layout="constrained")
    grid = figure.subplots(rows, columns)
    for axes in grid.flat:
        axes.set_visible(False)
    for panel in panels:
        place = panel["gridPos"]
        axes = grid[place["y"] // ROW_HEIGHT][place["x"] // place["w"]]
        axes.set_visible(True)
        draw(panel, axes, wanted.url, wanted.until - 60 * wanted.minutes, wanted.until)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=100, facecolor="#111217")
    Image.open(picture).convert("RGB").quantize(64).save(wanted.out, optimize=True)


if __name__ == "__main__":
    main()
