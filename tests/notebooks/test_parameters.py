"""Values that a parameter's bracket allows, as they are written, and folders, before anything runs."""

from __future__ import annotations

import pytest

from rollpe.errors import InputError
from rollpe_book.chapters import check_parameters
from shared import ROOT


@pytest.fixture
def check(tmp_path):
    """check(line, text): the value of the parameter x of that line, in a project with a folder ``there``."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()

    def check(line, text):
        path = tmp_path / "small.py"
        path.write_text(f'# %% tags=["parameters"]\nx: {line}\n', encoding="utf8")
        return check_parameters(path, {"x": text})["x"]

    return check


@pytest.mark.parametrize("text", ["0.1", "0.2", "0.3", "0.6", "0.7", "0.8", "0.9"])
def test_every_step_of_a_range_is_allowed_as_it_is_written(check, text):
    assert check("float = 0.1  # share [0.1..0.9 step 0.1]", text) == float(text)


@pytest.mark.parametrize("text", ["0.35", "0.3000000001", "0.05"])
def test_what_lies_between_two_steps_is_refused(check, text):
    with pytest.raises(InputError, match=r"x=0\.[0-9]+ is not allowed"):
        check("float = 0.1  # share [0.1..0.9 step 0.1]", text)


@pytest.mark.parametrize("text", ["9" * 19, "-" + "9" * 19, "9" * 400, "1" * 5000])
def test_a_number_that_no_seed_can_be_is_refused(check, text):
    assert check("int = 0  # seed", str(2**62)) == 2**62
    with pytest.raises(InputError, match="expected a whole number below"):
        check("int = 0  # seed", text)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_a_number_that_is_not_finite_is_refused(check, text):
    with pytest.raises(InputError, match="expected a number"):
        check("float = 1.0  # factor [.. step 0.5]", text)


@pytest.mark.parametrize("text", ["", "nowhere", "file", "file/deeper", "a" * 300])
def test_a_folder_that_is_read_must_exist(check, text):
    line = 'str = "there"  # folder {folder}'
    assert check(line, "there") == "there"
    with pytest.raises(InputError, match=r"is no folder\. Name a folder by its path .* for example there"):
        check(line, text)


@pytest.mark.parametrize("text", ["", "file", "file/deeper"])
def test_a_folder_that_is_written_must_be_possible(check, text, tmp_path):
    line = 'str = "there"  # folder {new folder}'
    before = sorted(tmp_path.rglob("*"))
    assert [check(line, name) for name in ("there", "new/deeper")] == ["there", "new/deeper"]
    with pytest.raises(InputError, match="is no folder that can be written to"):
        check(line, text)
    assert [path for path in sorted(tmp_path.rglob("*")) if path.suffix != ".py"] == before, "nothing is made"


@pytest.mark.parametrize(
    ("chapter", "name"),
    [
        ("07b-twin", "records"),
        ("11-train", "records"),
        ("12-results", "records"),
        ("13-ablations", "records"),
        ("14-inside", "records"),
        ("15-fast", "folder"),
        ("16-text", "records"),
        ("16-text", "live"),
        ("16-text", "checkpoints"),
    ],
)
def test_a_chapter_refuses_a_folder_before_it_runs(chapter, name):
    with pytest.raises(InputError, match=f"{name}='pyproject.toml/nowhere'"):
        check_parameters(ROOT / f"notebooks/{chapter}.py", {name: "pyproject.toml/nowhere"})
