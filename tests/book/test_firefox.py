"""The moving figures in Firefox, as test_widgets.py has them in Chromium: sliders, and their numbers; the
drawings of runs.

Run by ``make check-book`` after ``make book``. Firefox is driven by firefox.js: Playwright needs a patched
Firefox, Puppeteer takes the one that Debian has.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from built_book import HTML
from test_widgets import LOOK, PAGES, check

from scripts import in_node

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def answers():
    executable = shutil.which("firefox-esr") or shutil.which("firefox")
    assert executable, "no Firefox on this machine: install Debian's package firefox-esr"
    wanted = {
        "executable": executable,
        "pages": [(HTML / name).as_uri() for name in (*PAGES, "runs.html")],
        "look": LOOK,
    }
    return in_node([str(Path(__file__).with_name("firefox.js"))], wanted, timeout=600)


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_follows_the_keyboard_with_the_numbers_of_the_library(name, answers):
    answer = answers[(HTML / name).as_uri()]
    assert answer["errors"] == []
    assert answer["looks"], "a figure without sliders"
    drawings = [check(seen) for seen in answer["looks"]]
    assert len(set(drawings)) > len(drawings) / 2, "keys change the drawings"


def test_the_page_of_runs_draws_all_that_chromium_draws(answers):
    answer = answers[(HTML / "runs.html").as_uri()]
    assert answer["errors"] == [] and answer["charts"] == 3
