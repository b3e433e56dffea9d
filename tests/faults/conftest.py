"""Planted faults: what is tried, how often, and how many were survived.

Each test plants faults of one kind, drawn from a fixed seed, a few of them in `make test` and `FAULTS` times
as many in `make faults`.
"""

import os
from collections import Counter

import pytest

TIMES = int(os.environ.get("FAULTS", 1))


@pytest.fixture(scope="session")
def times():
    """How many times as many faults as in a short run."""
    return TIMES


@pytest.fixture
def tally(record_property):
    """tally(kind, tried, survived): count faults of a kind."""

    def note(kind, tried, survived):
        record_property("faults", (kind, tried, survived))
        assert survived == tried, f"{kind}: {tried - survived} of {tried} not survived"

    return note


def pytest_terminal_summary(terminalreporter):
    tried, survived = Counter(), Counter()
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, value in report.user_properties:
            if name == "faults":
                kind, more, good = value
                tried[kind] += more
                survived[kind] += good
    for kind in sorted(tried):
        terminalreporter.write_line(f"{kind}: {survived[kind]} of {tried[kind]} survived")
