"""The chooser on the page of encodings: its facts against the library, its form in a browser.

Here: what decides, by encoding and number of axes, and the filter. Not here: the table's markup
(test_extension.py).
"""

from __future__ import annotations

import warnings

import pytest
from built_book import ROOT

from rollpe.book.chooser import AGAINST, facts
from rollpe.encodings import ENCODINGS, create_encoding
from rollpe.encodings.properties import FIT_GRIDS, Fit, fit
from rollpe.encodings.relative import ScoreBias, Shaw
from rollpe.errors import InputError


@pytest.fixture(scope="module")
def fits() -> dict[str, dict[int, Fit]]:
    return {name: {axes: fit(name, axes) for axes in FIT_GRIDS} for name in ENCODINGS}


def test_the_chooser_says_of_every_encoding_what_its_class_promises(fits) -> None:
    for name, by_axes in fits.items():
        promised = ENCODINGS[name]
        biased = issubclass(promised, ScoreBias)
        for axes, found in by_axes.items():
            if found.refusal:
                assert facts(by_axes)[axes]["against"] == {
                    "axes": found.refusal[len(f"encoding '{name}' ") : -1]
                }
                continue
            assert found.acts_on == promised.acts_on
            assert (not found.of_fractions) == promised.real_positions, name
            assert found.larger_grid and found.cached, "the page says so of all"
            assert found.fused_decoding != biased, name
            on_grid = issubclass(promised, Shaw) and sum(FIT_GRIDS[axes]) <= 2 * 64
            assert found.fused == (on_grid or not biased), name


def test_the_choosers_code_builds_what_it_names_and_its_notes_are_true(fits) -> None:
    for name, by_axes in fits.items():
        for axes, fact in facts(by_axes).items():
            call = f"lambda: {fact['code']}"
            build = eval(call, {"create_encoding": create_encoding})
            with warnings.catch_warnings(action="ignore"):
                if by_axes[axes].refusal:
                    with pytest.raises(InputError):
                        build()
                    continue
                built = build()
            assert (built.name, built.axes) == (name, axes)
            notes = " ".join(fact["notes"])
            assert ("tokens" in notes) == (not built.added)
            assert (f"{built.streams} × 64 channels" in notes) == (built.streams > 1)
            assert ("repeat" in notes) == hasattr(built, "periods")


def test_an_encoding_is_excluded_by_the_answers_that_it_cannot_meet_alone(fits) -> None:
    def against(name: str, axes: int) -> set[str]:
        return set(facts(fits[name])[axes]["against"])

    assert against("axial-rope", 2) == against("lie", 3) == against("learned", 1) == set()
    assert against("rope", 2) == against("none", 1) == {"axes"}
    assert against("roll", 2) == {"of_fractions"}
    assert against("alibi", 1) == {"fused", "fused_decoding"}
    assert against("shaw", 1) == {"of_fractions", "fused", "fused_decoding"}
    assert against("shaw", 2) == {"of_fractions", "fused_decoding"}
    assert set(AGAINST) <= set(Fit.__dataclass_fields__)


# ------------------------------------------------------------------------------------ the form, in a browser

ANSWERS = (
    ("axes=1&cached=yes&flash=yes", {"fused", "fused_decoding", "cached"}),
    ("axes=2&real=yes&sizes=yes", {"of_fractions", "larger_grid"}),
    ("axes=3&flash=yes", {"fused"}),
)


def shown(page) -> list[str]:
    """The encodings whose rows show; the list above has the same ones, the reasons all others."""
    rows = page.locator("table.chooser tbody tr:visible td:first-child").all_inner_texts()
    listed = page.locator(".chooser-fits > li > p > a").all_inner_texts()
    assert (
        page.locator(".chooser-stage output").text_content().startswith(f"{len(rows)} of {len(ENCODINGS)} ")
    )
    assert sorted(listed) == sorted(rows)
    refused = page.locator(".chooser-stage details code").all_text_contents()
    assert set(refused) == set(ENCODINGS) - set(rows)
    return rows


@pytest.mark.browser
@pytest.mark.parametrize(("address", "trials"), ANSWERS)
def test_an_address_with_answers_shows_the_encodings_that_the_library_can_use_so(
    address, trials, visit, fits
) -> None:
    page = visit("encodings.html", width=390)
    page.evaluate("answers => { location.hash = answers; }", address)
    page.locator(".chooser-fits > li").first.wait_for()
    axes = int(address[len("axes=")])
    expected = [n for n in ENCODINGS if not ({"axes"} | trials) & facts(fits[n])[axes]["against"].keys()]
    assert shown(page) == expected != []
    for item in page.locator(".chooser-fits > li").all():
        code = facts(fits[item.locator("p > a").inner_text()])[axes]["code"]
        assert item.locator("pre").inner_text().startswith(code)
    page.add_script_tag(path=ROOT / "book/scripts/node_modules/axe-core/axe.min.js")
    page.locator(".chooser-stage summary").click()
    found = page.evaluate("axe.run('.chooser-stage').then(({violations}) => violations.map(({id}) => id))")
    assert found == []
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@pytest.mark.browser
def test_the_chooser_is_answered_by_keyboard_and_the_address_keeps_the_answers(visit) -> None:
    page = visit("encodings.html")
    table = page.locator("table.chooser tbody tr")
    assert table.count() == page.locator("table.chooser tbody tr:visible").count() == len(ENCODINGS)
    page.get_by_label("a sequence").focus()
    page.keyboard.press("ArrowDown")
    assert page.get_by_label("an image").is_checked() and page.url.endswith("#axes=2")
    best = page.locator(".chooser-fits > li").first
    scores = page.locator("table.chooser tr:visible td:nth-child(7)").all_inner_texts()
    assert best.inner_text().count("CIFAR-100") == 2
    measured = [text for text in scores if text[0].isdigit()]
    assert max(measured, key=lambda text: float(text.split()[0])) in best.inner_text()
    page.get_by_label("Training step").select_option("1.05")
    before = shown(page)
    assert "lie" not in before and "roll" in before
    page.get_by_label("positions between whole numbers").focus()
    page.keyboard.press("Space")
    after = shown(page)
    assert set(after) < set(before) and "roll" not in after
    page.reload()
    assert shown(page) == after
    page.evaluate("location.hash = 'roll'")
    assert shown(page) == after, "a link to a place on the page is no answer"
    page.get_by_role("button", name="Show all").press("Enter")
    page.wait_for_function("() => !location.hash")
    assert page.locator("table.chooser tbody tr:visible").count() == len(ENCODINGS)


@pytest.mark.browser
def test_without_scripts_the_choosers_table_stands_complete_and_no_form_shows(visit) -> None:
    page = visit("encodings.html", java_script_enabled=False)
    assert page.locator("table.chooser tbody tr:visible").count() == len(ENCODINGS)
    assert not page.locator(".chooser-stage").is_visible()
