"""The picture of all encodings: its cells against the library, and the questions that it answers."""

from __future__ import annotations

import itertools
import re
import warnings

import pytest
import torch
from test_waves import computed

from rollpe.encodings import create_encoding, encoding_options, grid_positions, list_encodings
from rollpe_book.figures import picture
from rollpe_book.figures.waves import WAVES
from shared import ROOT

CHOSEN = {key: int(value) for key, value in WAVES["picture"].start.items() if key in picture.SETTINGS["row"]}
CHANGED = {"trained": 2, "base": 0, "width": 2}
"""The number of another value of each setting."""


@pytest.fixture(autouse=True)
def _rings_repeat():
    with warnings.catch_warnings(action="ignore"):
        yield


def by_scores(name: str, view: str, moved: int, numbers: dict[str, int], axis: int = -1) -> torch.Tensor:
    """ln(N w) from ``Encoding.scores`` of all tokens with all, by content [3, N]. In an image 0 is down."""
    axes, reach = picture.VIEWS[view]
    values = {key: picture.SETTINGS[view][key][number] for key, number in numbers.items()}
    trained = values.pop("trained")
    taken = {key: value for key, value in values.items() if key in encoding_options(name)}
    drawn = picture.encoding_of(name, view, trained, **taken)
    heads = drawn.heads
    encoding = create_encoding(
        name, head_dim=picture.CHANNELS, heads=heads, axes=axes, grid=(trained,) * axes, **taken
    ).double()
    encoding.load_state_dict(drawn.state_dict())
    q, k = picture.contents(view, encoding.waves_in)
    q = q.expand_as(k)
    start = torch.full((axes,), (trained // 2 if name == "learned" else 0) - reach)
    start[axis] += moved
    positions = start + grid_positions(*[2 * reach + 1] * axes, dtype=torch.int64)
    if encoding.acts_on == "tokens":
        q, k = (encoding.add(x[:, 0].repeat(1, 1, heads), positions)[:, None] for x in (q, k))
    tokens = k.shape[-2]
    q, k = (x.expand(-1, heads, -1, -1) for x in (q, k))
    scores = encoding.scores(q, k, positions)[:, 0, tokens // 2]
    return (tokens * scores.softmax(-1)).log()


@pytest.mark.parametrize("view", picture.VIEWS)
def test_every_cell_is_what_the_library_computes(view):
    cases, expected = [], []
    usual = dict.fromkeys(picture.SETTINGS[view], 1)
    for name in picture.shown(view):
        takes = picture.settings_of(name, view)
        for moved, numbers in [(0, usual), *[(3, usual | {key: CHANGED[key]}) for key in takes]]:
            words = {key: str(picture.SETTINGS["row"][key][number]) for key, number in numbers.items()}
            made = by_scores(name, view, moved, numbers).clamp(-picture.LIMIT, picture.LIMIT)
            for content, values in zip(picture.CONTENTS, made, strict=True):
                state = {"view": view, "content": content, "moved": moved, **words}
                cases.append(["logWeights", [picture.for_browser(), name, state]])
                expected.append(values)
    found = torch.tensor(computed(cases), dtype=torch.float64)
    rounding = 0.5 * picture.LIMIT / 127 + 1e-9
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=rounding)


def test_a_setting_is_offered_where_it_changes_an_encoding():
    for view, name in itertools.product(picture.VIEWS, list_encodings()):
        if name in picture.shown(view):
            usual = by_scores(name, view, 0, dict.fromkeys(CHOSEN, 1))
            changing = {
                key
                for key, number in CHANGED.items()
                if not by_scores(name, view, 0, dict.fromkeys(CHOSEN, 1) | {key: number}).allclose(usual)
            }
            assert changing == set(picture.settings_of(name, view)), name


def cell(name: str, view: str = "row", content: str = "one", moved: int = 0, **changed: int) -> torch.Tensor:
    """The values of a cell, [249] or [21, 21], with the settings that the picture begins with."""
    row = CHOSEN | changed
    numbers = {key: picture.SETTINGS["row"][key].index(value) for key, value in row.items()}
    values = {key: picture.SETTINGS[view][key][number] for key, number in numbers.items()}
    taken = {key: values[key] for key in picture.settings_of(name, view)}
    made = picture.log_weights(name, view, **{"trained": values["trained"]} | taken)[moved]
    axes, reach = picture.VIEWS[view]
    return made[picture.CONTENTS.index(content)].view([2 * reach + 1] * axes)


def which(true, view: str = "row") -> set[str]:
    return {name for name in picture.shown(view) if true(name)}


ANSWERS = {}
"""By the first words of a question of book/picture.md: what has to be true."""


def answer(question):
    def keep(test):
        ANSWERS[question] = test
        return test

    return keep


@answer("Which encodings are relative?")
def relative():
    absolute = which(lambda name: not cell(name, moved=3).allclose(cell(name)))
    assert absolute == {"integer", "sinusoidal", "learned", "multiplexed-roll"}


@answer("And in an image?")
def relative_in_images():
    changed = which(
        lambda name: not cell(name, "image", moved=3).allclose(cell(name, "image"), atol=1e-6), "image"
    )
    assert changed == {"integer", "sinusoidal", "learned", "multiplexed-roll", "lie"}

    def moved_down(name, places):
        return by_scores(name, "image", places, dict.fromkeys(CHOSEN, 1), axis=0)

    down = which(lambda name: not moved_down(name, 3).allclose(moved_down(name, 0), atol=1e-6), "image")
    assert down == changed | {"spherical-rope"}


@answer("Which knows no position at all?")
def blind():
    assert which(lambda name: cell(name).abs().max() < 1e-9) == {"none"}


@answer("Which are periodic?")
def periodic():
    one_turn = {"none", "roll", "roll-twin", "continuous-roll", "multiplexed-roll"}
    for period, names in ((32, one_turn), (64, one_turn | {"uniform-rope", "twisted-roll"})):
        assert which(lambda name, p=period: cell(name)[p:].allclose(cell(name)[:-p], atol=1e-6)) == names


@answer("What does the twist do?")
def twisted():
    curve = cell("twisted-roll", content="kernel")
    at = {delta: curve[124 + delta].item() for delta in (0, 32, 64)}
    assert at[0] == pytest.approx(at[64]) == pytest.approx(curve.max())
    assert at[32] == pytest.approx(curve.min())
    ring = cell("roll", content="kernel")
    assert ring[124 + 32] == pytest.approx(ring[124].item())


@answer("What happens beyond the length that an encoding is built for?")
def beyond():
    def level(name):
        return cell(name)[:80].std() < 1e-9 and cell(name)[-80:].std() < 1e-9

    assert which(level) == {"none", "learned", "shaw"}
    changing = [cell("t5-bias", trained=built).diff().abs() > 1e-9 for built in (32, 64, 128)]
    assert all((each.nonzero()[[0, -1], 0] - 124).tolist() == [-91, 90] for each in changing), "then constant"
    assert (cell("alibi").diff()[124:] < 0).all() and (cell("alibi").diff()[:124] > 0).all()


@answer("Which prefers near keys, whatever the contents?")
def near():
    def lead(name, content):
        curve = cell(name, content=content).clamp(-picture.LIMIT, picture.LIMIT)
        return curve[124 - 30 : 124 + 31].mean() - torch.cat((curve[:60], curve[-60:])).mean()

    def least(name):
        return min(lead(name, content) for content in picture.CONTENTS)

    assert which(lambda name: least(name) > 1) == {"alibi"}
    assert which(lambda name: least(name) > 0.3) == {"alibi", "sinusoidal"}
    assert lead("rope", "kernel") > 1 and abs(lead("rope", "one")) < 0.1


@answer("What does the base do to RoPE?")
def base():
    fast, slow = (cell("rope", content="kernel", base=base)[124:] for base in (100, 10000))
    assert fast[0] > slow[0] + 1 and (fast < 0).int().argmax() < (slow < 0).int().argmax()


@answer("Can an encoding tell left from right?")
def sides():
    even = which(lambda name: cell(name).allclose(cell(name).flip(0)))
    assert even == {"none", "alibi"}
    mirrored = which(
        lambda name: cell(name, content="kernel").allclose(cell(name, content="kernel").flip(0), atol=1e-6)
    )
    assert {"rope", "roll", "roll-twin", "twisted-roll"} < mirrored and "shaw" not in mirrored


@answer("In an image, which draw a cross, and which dots?")
def spots():
    at = {name: cell(name, "image", "kernel") for name in picture.shown("image")}

    def cross(name):
        """All keys in the row and the column of the query get more than an equal share, few others do."""
        more = at[name] > 0
        others = more[torch.arange(21) != 10][:, torch.arange(21) != 10]
        return more[10].all() and more[:, 10].all() and others.double().mean() < 0.05

    def is_sum(name):
        return (at[name][10] + at[name][:, 10:11] - at[name][10, 10]).allclose(at[name], atol=1e-6)

    crosses = {"roll", "roll-twin", "continuous-roll", "twisted-roll"}
    assert which(cross, "image") == crosses
    assert all(map(is_sum, crosses | {"axial-rope", "uniform-rope"})) and not is_sum("torus-roll")
    wide = at["axial-rope"]
    assert wide[10, 10] == wide.max() and (wide[9:12, 9:12] > 0).all(), "a spot"
    again, sheet = at["uniform-rope"], at["torus-roll"]
    for drawn in (again, sheet):
        peaks = (drawn > drawn.max() - 1e-6).nonzero() - 10
        assert peaks.tolist() == [[y, x] for y in (-8, 0, 8) for x in (-8, 0, 8)]
    beside = [sheet[9, 10], sheet[11, 10], sheet[10, 9], sheet[10, 11]]
    assert max(beside) < 0 and (again[9:12, 9:12] > 0).all(), "dots, and spots"


@pytest.mark.parametrize("question", ANSWERS)
def test_the_answer_to_a_newcomers_question_is_true(question):
    ANSWERS[question]()


def test_the_page_asks_these_questions_and_shows_each_answer():
    page = (ROOT / "book/picture.md").read_text(encoding="utf-8")
    asked = re.findall(r"^\*\*(.+?)\*\* .*?<a href=\"#([^\"]+)\">", page, re.MULTILINE | re.DOTALL)
    assert [question for question, _ in asked] == list(ANSWERS)
    settings = picture.SETTINGS["row"]
    known = {key: {str(value) for value in values} for key, values in settings.items()}
    known |= {"view": set(picture.VIEWS), "content": set(picture.CONTENTS)}
    known["moved"] = {str(moved) for moved in range(picture.MOVES)}
    for _, address in asked:
        for key, value in (pair.split("=") for pair in address.split("&")):
            assert value in known[key], address
