"""Hone is Apache-2.0: what it needs at run time is under a permissive licence or weak copyleft."""

import re
from importlib.metadata import PackageNotFoundError, metadata

import pytest

from tests.test_packaging import pins

PERMISSIVE = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT"),
    *("MIT-0", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
}
WEAK_COPYLEFT = {
    *("EPL-2.0", "LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later"),
    *("MPL-1.1", "MPL-2.0"),
}
NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""What packages wrote before SPDX expressions."""

REVIEWED = {
    "async-timeout": "Apache-2.0",  # needed before Python 3.11.3 only
    "colorama": "BSD-3-Clause",  # needed on Windows only
    "httpx2-jsfetch": "BSD-3-Clause",  # needed in a browser only
    "pywin32": "PSF-2.0",  # needed on Windows only
    "pyphen": "GPL-2.0-or-later OR LGPL-2.1-or-later OR MPL-1.1",  # as its README says
}
"""Licences that a person read, of packages that are not installed or do not say it clearly."""

HELP = (
    "Take another package for one under GPL, AGPL, SSPL or CC BY-SA. For one whose metadata does "
    "not say its licence (''), read it and add it to REVIEWED in tests/test_licences.py."
)


def licence(package: str) -> str:
    """Return the SPDX expression of a package, or "" where its metadata is not clear."""
    if package in REVIEWED:
        return REVIEWED[package]
    try:
        found = metadata(package)
    except PackageNotFoundError:
        return ""
    for expression in found.get_all("License-Expression") or []:
        return str(expression)
    written = [str(name).strip() for name in found.get_all("License") or []]
    classified = [
        str(name).rpartition(" :: ")[2]
        for name in found.get_all("Classifier") or []
        if str(name).startswith("License :: ")
    ]
    for names in (written, classified):
        if len(names) == 1 and NAMES.get(names[0], names[0]) in PERMISSIVE | WEAK_COPYLEFT:
            return NAMES.get(names[0], names[0])
    return " AND ".join(classified)


def is_allowed(expression: str) -> bool:
    """Tell whether one of the alternatives is allowed; one with parentheses needs a person."""
    return any(
        all(part in PERMISSIVE | WEAK_COPYLEFT for part in re.split(r"\s+AND\s+", alternative))
        for alternative in re.split(r"\s+OR\s+", expression)
        if not re.search(r"[()]", expression)
    )


def test_what_hone_needs_at_run_time_is_permissive_or_weak_copyleft() -> None:
    licences = {package: licence(package) for package in pins("requirements-extras.lock")}
    refused = {package: it for package, it in licences.items() if not is_allowed(it)}
    assert refused == {}, HELP


def test_the_reviewed_packages_are_still_needed() -> None:
    assert REVIEWED.keys() <= pins("requirements-extras.lock").keys()


@pytest.mark.parametrize(
    "expression", ["MIT", "LGPL-3.0-or-later", "Apache-2.0 AND MIT", "GPL-2.0-only OR MIT"]
)
def test_allows_permissive_licences_and_weak_copyleft(expression: str) -> None:
    assert is_allowed(expression)


@pytest.mark.parametrize(
    "expression",
    [
        *("", "GPL-2.0-only", "AGPL-3.0-or-later", "SSPL-1.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0"),
        *("MIT AND GPL-3.0-only", "(MIT OR GPL-2.0-only) AND GPL-2.0-only"),
    ],
)
def test_refuses_strong_copyleft_and_what_is_not_known(expression: str) -> None:
    assert not is_allowed(expression)


def test_a_package_that_is_not_installed_has_no_known_licence() -> None:
    assert licence("no-such-package") == ""
