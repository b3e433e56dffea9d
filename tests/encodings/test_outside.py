"""Encodings from files of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollpe.encodings import create_encoding, import_encodings, outside_files, register
from rollpe.errors import InputError

OWN = """
from rollpe.encodings import Encoding, register

@register("{name}")
class Own(Encoding):
    acts_on = "scores"
    made_in = "{name}"
"""

pytestmark = pytest.mark.usefixtures("known_encodings_are_put_back")


def write(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "own.py").write_text(OWN.format(name=name))
    return folder / "own.py"


def test_two_files_of_one_name_keep_apart(tmp_path: Path) -> None:
    files = {name: write(tmp_path / name, name) for name in ("one", "two")}
    for file in files.values():
        import_encodings(file)
    for name, file in files.items():
        assert outside_files(name) == [file.resolve()]
        assert create_encoding(name, head_dim=4, heads=1).made_in == name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import sys\nsys.exit(0)\n", ":2: SystemExit: 0"),
        ("def f():\n    return 1 / 0\n\nf()\n", ":2: ZeroDivisionError: division by zero"),
        ("x = 1\nx = (\n", ":2: SyntaxError: "),
        ("import rollpe.none\n", ":1: ModuleNotFoundError: "),
        ("x = 1\ny = '\xe9'\n", ":2: SyntaxError: "),
        ("raise ValueError('two\\nlines')\n", ":1: ValueError: two."),
        (OWN.format(name="roll"), ":4: encoding name 'roll' belongs to rollpe.encodings.roll.Roll"),
    ],
)
def test_a_file_that_breaks_or_leaves_is_one_line_with_its_place(
    tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "own.py").write_text(text, encoding="latin1")
    with pytest.raises(InputError) as error:
        import_encodings(tmp_path / "own.py")
    assert f"{tmp_path / 'own.py'}{says}" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["", "a/b", "a@b", "a+b", "a b", "a\n", "a.b", "a=b", "a,b", "..", None])
def test_a_name_that_no_command_or_folder_can_hold_is_refused(name: str | None) -> None:
    with pytest.raises(InputError, match="is not possible: use letters, digits, - and _") as error:
        register(name)
    assert repr(name) in str(error.value)


def test_a_file_may_come_again_and_another_may_not_take_its_name(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", "one"), write(tmp_path / "b", "one")
    import_encodings(first)
    import_encodings(tmp_path / "b" / ".." / "a" / "own.py")
    with pytest.raises(InputError, match="'one' belongs to encodings_of_own_"):
        import_encodings(second)
    assert outside_files("one") == [first.resolve()]
