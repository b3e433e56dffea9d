"""The moving figures of the built book, moved by keyboard in headless Chromium.

Run by ``make check-book`` after ``make book``; not part of ``make test``.
"""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from built_book import HTML, ROOT, come_near

from rollpe.encodings import frequencies
from rollpe.ring import continuous_roll, multiplexed_roll, roll, wave_period
from rollpe.topography import near_and_any, unpack_correlations
from rollpe_book.figures import photo as photograph
from rollpe_book.figures import picture as all_encodings
from rollpe_book.figures.waves import WAVES, bump
from rollpe_lab.records import read_arrays, read_record, record_path
from rollpe_lab.training.plan import load_plan
from scripts import angle_list, eigenvalue_count, period, walking_pair

PAGES = sorted(
    str(path.relative_to(HTML))
    for path in HTML.rglob("*.html")
    if 'class="wave-stage"' in path.read_text(encoding="utf8")
)

pytestmark = pytest.mark.browser


# --------------------------------------------------------------------- what the figures must say, by rollpe


def walk(s):
    q, k = walking_pair()
    return {"score": roll(q, s["p"]) @ roll(k, s["p"] + s["delta"]) / len(q) ** 0.5}


def ring(s):
    q = bump(s["n"], 0, 4)
    turns = frequencies.ring(s["n"]) * s["p"] / (2 * math.pi)
    numbers = {f"turns-{k}": turn for k, turn in enumerate(turns.tolist())}
    return numbers | {"first": roll(q, s["p"])[0], "overlap": q @ roll(q, s["p"]) / (q @ q)}


def continuous(s):
    whole = math.floor(s["p"] + 0.5)
    numbers = {"odd-n": s["n"], "even-n": s["n"] + 1, "whole": whole}
    for parity, n, nyquist in (("odd", s["n"], "fixed"), ("even", s["n"] + 1, s["nyquist"])):
        x = torch.zeros(2 * n if nyquist == "paired" else n, dtype=torch.float64)
        x[n // 2] = 1
        rings = x.view(-1, n)
        moved = continuous_roll(x, s["p"], nyquist=nyquist)
        half = continuous_roll(x, s["p"] / 2, nyquist=nyquist)
        off = continuous_roll(x, whole, nyquist=nyquist) - roll(rings, whole).flatten()
        numbers[f"{parity}-length"] = moved.norm()
        numbers[f"{parity}-off"] = off.norm()
        numbers[f"{parity}-halves"] = (continuous_roll(half, s["p"] / 2, nyquist=nyquist) - moved).norm()
    return numbers


def speeds(s):
    total = multiplexed_roll(bump(s["n"], 0, 7).expand(s["W"], -1), s["p"])
    periods = ", ".join(str(wave_period(s["n"], w)) for w in range(1, s["W"] + 1))
    return {"length": total @ total, "periods": periods}


def built(code):
    """The angles of the encoding that a figure's lines of Python build, float64 [m]."""
    room = {}
    exec(code, room)
    return room["encoding"].theta(torch.zeros(1, dtype=torch.float64))


def circle(s):
    omega = built(s["code"])
    if s["list"] == "random":
        listed = torch.tensor(s["random"], dtype=torch.float64)[: s["m"]]
        torch.testing.assert_close(omega, listed / s["wavelength"])
    elif s["list"] != "own":  # known from the code alone
        torch.testing.assert_close(omega, angle_list(s["list"], s["m"]) / s["wavelength"])
    assert len(omega) == s["m"] and s["i"] < s["m"]
    count, most = eigenvalue_count(omega), 2 * s["G"] - 1
    functions = f"{count} of {most}" if count < most else f"{most} of {most}, complete"
    return {"period": period(omega) or "not within 5000", "functions": functions}


def grow(s):
    plan = {"digits": "frames.yaml", "photographs": "frames-photos.yaml"}[s["run"]]
    numbers = {}
    for planned in load_plan(ROOT / "plans" / plan):
        path = record_path(ROOT / "data/records", planned.run_id)
        arrays = read_arrays(path)
        frame = torch.from_numpy(arrays["frames"][s["t"]]).double()  # [2, layers, heads, axes, pairs]
        layers = {"all": slice(None), "first": [0], "middle": [frame.shape[1] // 2], "last": [-1]}
        heads = slice(None) if s["head"] == "all" else [int(s["head"][1:]) - 1]
        chosen = frame[:, layers[s["layer"]]][:, :, heads]
        near, any_two = near_and_any(unpack_correlations(chosen))
        numbers |= {planned.run_id.encoding: near.mean(), f"{planned.run_id.encoding}-any": any_two.mean()}
    step, last = arrays["frame_steps"][[s["t"], -1]]
    epoch = step / read_record(path).history[0].steps
    return numbers | {"moment": f"Step {step} of {last}, epoch {epoch:.1f}"}


PATCHES, MODELS = photograph.read_photo(ROOT / "data/photo")
MAPS = {name: photograph.maps(name, model, PATCHES) for name, model in MODELS.items()}


def photo(s):
    shift, of_query = (s["sy"], s["sx"]), s["patch"] - 1
    changes = {name: photograph.change(of[0, 0], of[shift], shift)[of_query] for name, of in MAPS.items()}
    return {f"change-{name}": change for name, change in changes.items()}


def picture(s):
    view = s["view"]
    at = {
        key: values[list(all_encodings.SETTINGS["row"][key]).index(int(s[key]))]
        for key, values in all_encodings.SETTINGS[view].items()
    }

    def cell(name, moved):
        taken = {key: at[key] for key in all_encodings.settings_of(name, view)}
        return all_encodings.log_weights(name, view, **{"trained": at["trained"]} | taken)[moved]

    names = [name for name in all_encodings.shown(view) if name in s.get("cells", [name])]
    changed = [name for name in names if not cell(name, s["moved"]).allclose(cell(name, 0), atol=1e-6)]
    return {"changed": ", ".join(changed) or "no cell"}


CHECKS = (walk, ring, continuous, speeds, circle, grow, photo, picture)
NUMBERS = {function.__name__: function for function in CHECKS}


# ------------------------------------------------------------------------------------------- the machinery


@pytest.fixture
def visit(visit):
    """Open a page: visit(name, theme=…, width=…, motion=…, scripts=…)."""

    def open_page(name, *, theme="light", width=1280, motion="reduce", scripts=True):
        asked = {"color_scheme": theme, "reduced_motion": motion, "java_script_enabled": scripts}
        page = visit(name, width, theme, **asked)
        if scripts:
            come_near(page)
        return page

    return open_page


def settle(page) -> None:
    """Wait for two frames: without motion a drawing is there in the next."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


LOOK = """(stage) => {
    const all = (what) => [...stage.querySelectorAll(what)].filter((node) => !node.closest('[hidden]'));
    const state = JSON.parse(stage.dataset.start);
    all('input[type=range]').forEach((input) => { state[input.dataset.key] = Number(input.value); });
    all('input[type=radio]:checked').forEach((input) => { state[input.dataset.key] = input.value; });
    all('pre').forEach((code) => { state.code = code.textContent; });
    const numbers = Object.fromEntries(all('[data-number]').map((n) => [n.dataset.number, n.textContent]));
    const drawing = all('.wave-panel > svg').map((svg) => svg.innerHTML).join();
    return { wave: stage.dataset.wave, state, numbers, drawing };
}"""


def look(stage) -> str:
    """The drawing of a figure, after its numbers were checked."""
    return check(stage.evaluate(LOOK))


def check(seen: dict) -> str:
    """The drawing that was seen, after every number beside it was found to be what rollpe computes."""
    at = seen["state"]
    expected = NUMBERS[seen["wave"]](at)
    shown = {key: text for key, text in seen["numbers"].items() if not key.endswith("-says")}
    assert shown.keys() == expected.keys()
    for key, text in shown.items():
        if isinstance(expected[key], str):
            assert text == expected[key], (key, at)
        else:
            digits = len(text.partition(".")[2])
            error = abs(float(text.replace("−", "-")) - float(expected[key]))
            assert error <= 0.5 * 10**-digits + 1e-9, (key, text, float(expected[key]), at)
    return seen["drawing"]


# ---------------------------------------------------------------------------------------------- properties


@pytest.mark.parametrize("name", PAGES)
def test_each_slider_moves_the_drawing_and_the_numbers_are_those_of_the_library(name, visit):
    page = visit(name)
    stage = page.locator(".wave-stage").first
    slider = stage.locator("input[type=range]").first
    at_its_end = slider.input_value() == slider.get_attribute("max")
    slider.focus()
    page.keyboard.press("ArrowLeft" if at_its_end else "ArrowRight")
    news = stage.locator("[aria-live=polite]")
    news.filter(has_text=": ").wait_for(state="attached", timeout=2000)
    value = stage.locator("[data-number]:visible").last.text_content()
    assert value in news.text_content(), "a change is told to those who listen"
    for stage in page.locator(".wave-stage").all():
        assert stage.locator("xpath=ancestor::figure").locator("figcaption").inner_text().strip()
        before = look(stage)
        for slider in stage.locator("input[type=range]").all():
            identity = slider.get_attribute("id")
            assert page.locator(f"label[for={identity}] i").inner_text().strip(), "it names its symbol"
            slider.focus()
            for press in ("ArrowRight", "End", "Home", "ArrowRight"):
                value = slider.input_value()
                page.keyboard.press(press)
                settle(page)
                after = look(stage)
                assert after != before or slider.input_value() == value, (identity, press)
                before = after
            assert slider.input_value() != slider.get_attribute("min"), "the arrow keys move it"
            output = stage.locator(f"output[for={identity}]").inner_text()
            assert float(output.replace("−", "-")) == float(slider.input_value())
        for choice in stage.locator("input[type=radio]").all():
            already = choice.is_checked()
            choice.check()
            settle(page)
            after = look(stage)
            assert already or after != before
            before = after


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_words_are_readable_and_nothing_sticks_out(name, visit, theme, width):
    page = visit(name, theme=theme, width=width)
    poor, outside = page.evaluate(
        """() => {
        const channel = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
        const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
        const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
        const ground = (node) => {
          for (; node; node = node.parentElement) {
            const color = rgb(getComputedStyle(node).backgroundColor);
            if (color.length === 3 || color[3] > 0) return light(color);
          }
          return 1;
        };
        const poor = [], outside = [];
        document.querySelectorAll('.wave-stage').forEach((stage) => {
          const frame = stage.getBoundingClientRect();
          const words = 'text, label, dt, dd, th, td, output, legend, button, p.wave-head';
          stage.querySelectorAll(words).forEach((node) => {
            if (!node.textContent.trim() || node.closest('[hidden]')) return;
            const style = getComputedStyle(node);
            const a = light(rgb(node.tagName === 'text' ? style.fill : style.color)), b = ground(node);
            const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (contrast < 4.5) poor.push([node.textContent, contrast]);
            const box = node.getBoundingClientRect();
            if (box.left < frame.left - 1 || box.right > frame.right + 1) outside.push(node.textContent);
          });
        });
        return [poor, outside];
        }"""
    )
    assert poor == [] and outside == []


MOVED = "before => document.querySelector('.wave-stage input').value !== before"


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_the_wave_on_the_first_page_moves_by_itself_where_that_is_wanted_until_it_is_paused(visit, motion):
    page = visit("index.html", motion=motion)
    stage = page.locator(".wave-stage").first
    stage.scroll_into_view_if_needed()
    slider = stage.locator("input[type=range]").first
    before = slider.input_value()
    if motion == "reduce":
        page.wait_for_timeout(1500)
        assert slider.input_value() == before
        page.get_by_role("button", name="play").first.click()
    page.wait_for_function(MOVED, arg=before, timeout=5000)
    stage.get_by_role("button", name="pause").click()
    before = slider.input_value()
    page.wait_for_timeout(1500)
    assert slider.input_value() == before


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_the_map_grows_again_when_it_is_played(visit, motion):
    page = visit("executed/08-basis.html", motion=motion)
    stage = page.locator(".wave-stage[data-wave=grow]")
    slider = stage.locator("input[type=range]")
    end = slider.input_value()
    page.wait_for_timeout(1500)
    assert slider.input_value() == end == slider.get_attribute("max"), "it waits for the reader"
    stage.get_by_role("button", name="play").click()
    earlier = "moment => Number(document.querySelector('[data-wave=grow] input').value) < Number(moment)"
    page.wait_for_function(earlier, arg=end)
    look(stage)
    page.wait_for_function(earlier.replace("<", ">"), arg=slider.input_value())
    look(stage)
    stage.get_by_role("button", name="pause").click()
    at = slider.input_value()
    page.wait_for_timeout(1500)
    assert slider.input_value() == at


@pytest.mark.parametrize("name", PAGES)
def test_without_scripts_and_on_paper_the_drawings_stand_alone(name, visit):
    def drawings(page):
        return [
            stage.locator(".wave-panel > svg:visible").count() for stage in page.locator(".wave-stage").all()
        ]

    controls = ".wave-stage :is(input, button, dl, table, p.wave-hint):visible"
    still, page = visit(name, scripts=False), visit(name)
    assert still.locator(".wave-still:visible").count() == len(drawings(still))
    assert still.locator(controls).count() == page.locator(".wave-still").count() == 0
    assert drawings(still) == drawings(page) and all(drawings(page))
    assert page.locator(controls).count() > 0
    page.emulate_media(media="print")
    assert page.locator(controls).count() == 0 and drawings(page) == drawings(still)


NOT_RELATIVE = {"learned", "multiplexed-roll"}


def test_the_query_carries_its_key_along_and_the_key_moves_alone(visit):
    page = visit("index.html")
    stage = page.locator("[data-wave=walk]")

    def drag(token: str, steps: int) -> dict:
        """The figure after a token was dragged by so many places."""
        box = stage.locator(f"rect.token.{token}").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + steps * 40, y, steps=5)  # 36 pixels wide, 4 between them
        page.mouse.up()
        settle(page)
        seen = stage.evaluate(LOOK)
        check(seen)
        return seen

    before = stage.evaluate(LOOK)
    after = drag("q", -2)
    assert after["state"] == before["state"] | {"p": before["state"]["p"] - 2}
    assert after["numbers"] == before["numbers"]
    changed = drag("k", 1)
    assert changed["state"] == after["state"] | {"delta": after["state"]["delta"] + 1}
    assert changed["numbers"] != after["numbers"]


MAP = """(svg) => {
    const frame = svg.querySelector('.edge').getBBox();
    return [...svg.querySelectorAll('.cell')].map((cell) => {
        const { x, y, width } = cell.getBBox();
        const value = (cell.classList.contains('q') ? -1 : 1) * cell.getAttribute('fill-opacity');
        return [Math.round((y - frame.y) / width), Math.round((x - frame.x) / width), value];
    });
}"""


def test_a_photograph_that_is_dragged_carries_the_maps_of_relative_encodings_along(visit):
    page = visit("executed/04-rolling.html")
    stage = page.locator("[data-wave=photo]")
    drawing = stage.locator("svg.grip")
    drawing.scroll_into_view_if_needed()
    before = stage.evaluate(LOOK)
    query = drawing.locator("rect.query").first
    size = float(query.get_attribute("width"))

    def middle():
        box = query.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    x, y = middle()
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 2 * size, y + size, steps=5)
    page.mouse.up()
    settle(page)
    after = stage.evaluate(LOOK)
    check(after)
    assert after["state"] == before["state"] | {"sy": 1, "sx": -2}
    assert middle() == pytest.approx((x - 2 * size, y + size))
    for (encoding, maps), svg in zip(MAPS.items(), stage.locator(".wave-panel > svg").all()[1:], strict=True):
        change = after["numbers"][f"change-{encoding}"]
        assert float(change) > 0.1 if encoding in NOT_RELATIVE else change == "0.00", encoding
        drawn = torch.zeros(8, 8, dtype=torch.float64)
        for row, column, value in svg.evaluate(MAP):
            drawn[row, column] = value
        of_query = {shift: moved[before["state"]["patch"] - 1] for shift, moved in maps.items()}
        largest = max(scores.abs().max() for scores in of_query.values())
        torch.testing.assert_close(drawn, of_query[1, -2] / largest, rtol=0, atol=0.01)

    page.mouse.click(x - 3 * size, y + 3 * size)  # one to the left of the query and two below
    settle(page)
    chosen = stage.evaluate(LOOK)
    check(chosen)
    assert chosen["state"] == after["state"] | {"patch": before["state"]["patch"] + 2 * 4 - 1}
    stage.get_by_role("button", name="move back").click()
    settle(page)
    assert stage.evaluate(LOOK)["state"] == chosen["state"] | {"sy": 0, "sx": 0}


def test_an_angle_that_is_dragged_makes_a_list_of_ones_own_whose_code_is_copied(visit):
    page = visit("executed/05-rope.html")
    stage = page.locator("[data-wave=circle]")
    stage.scroll_into_view_if_needed()

    def seen() -> tuple[dict, torch.Tensor]:
        settle(page)
        found = stage.evaluate(LOOK)
        check(found)
        return found["state"], built(found["state"]["code"])

    def middle(what: str) -> tuple[float, float]:
        box = stage.locator(what).bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    before, listed = seen()
    assert before["list"] != "own"
    (x, y), handle = middle("circle.rim"), middle("circle.target")
    page.mouse.move(*handle)
    page.mouse.down()
    page.mouse.move(x + 2, y - 40, steps=5)
    page.mouse.move(x - 40, y + 40, steps=5)  # below: it is the mirror image that follows
    page.mouse.up()
    after, drawn = seen()
    assert (after["list"], after["i"], after["degree"]) == ("own", before["i"], 135)
    expected = listed.clone()
    expected[before["i"]] = 0.75 * math.pi * before["wavelength"]
    torch.testing.assert_close(drawn, expected / before["wavelength"])

    stage.locator("input[data-key=degree]").focus()
    page.keyboard.press("ArrowLeft")
    _, moved = seen()
    expected[before["i"]] *= 134 / 135
    torch.testing.assert_close(moved, expected / before["wavelength"])

    stage.get_by_role("button", name="copy").click()
    assert page.evaluate("getSelection().toString()") == stage.locator("pre").text_content()
    stage.locator("input[value=ring]").check()
    stage.locator("input[value=own]").check()
    torch.testing.assert_close(seen()[1], moved)


def test_a_question_leads_to_a_view_that_the_address_keeps_and_that_is_saved(visit):
    page = visit("picture.html")
    stage = page.locator("[data-wave=picture]")
    before = stage.evaluate(LOOK)["state"]
    page.get_by_role("link", name="Show it").nth(1).click()
    settle(page)
    seen = stage.evaluate(LOOK)
    check(seen)
    assert seen["state"] == before | {"view": "image", "content": "one", "moved": 3}
    page.reload()
    come_near(page)
    settle(page)
    assert stage.evaluate(LOOK) == seen
    with page.expect_download() as saved:
        page.get_by_role("button", name="save SVG").click()
    svg = ElementTree.parse(saved.value.path()).getroot()
    assert saved.value.suggested_filename == "encodings.svg"
    heads = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert heads == all_encodings.shown("image")
    cells = [
        box for box in svg.iter("{http://www.w3.org/2000/svg}rect") if float(box.get("fill-opacity", 0)) < 1
    ]
    assert len(cells) > 1000 and all(box.get("fill").startswith("rgb") for box in cells)
    with page.expect_download() as saved:
        page.get_by_role("button", name="save PNG").click()
    assert (
        saved.value.path().read_bytes().startswith(b"\x89PNG") and saved.value.path().stat().st_size > 20_000
    )
    page.locator(".wave-head a").first.click()
    page.locator("section#none:target h3").wait_for()
    assert Path(page.url.partition("#")[0]).name == "encodings.html"


def test_every_wave_is_on_some_page_and_has_its_numbers_checked():
    shown = {
        name
        for page in PAGES
        for name in WAVES
        if f'data-wave="{name}"' in (HTML / page).read_text(encoding="utf8")
    }
    assert shown == set(WAVES) == set(NUMBERS)
