"""Files that an editor, a disk or a stranger has spoiled: each is read or refused in one line, and soon."""

from __future__ import annotations

import io
import json
import random
import shutil
from itertools import pairwise

import numpy as np
from answers import complaint

from rollpe_book.equations import run_checks
from shared import ROOT

RECIPE = (ROOT / "src/rollpe_lab/training/recipes/smoke.yaml").read_text(encoding="utf8")
PLAN = """recipe: smoke
set: {epochs: 3, augmentation: {flip: 0.5}}
blocks:
  - encodings: [learned, roll, {roll: {width: 7}}, {multiplexed-roll: {speeds: [1, 1]}}]
    seeds: [0, 1, 2]
  - encodings: [learned+roll]
    seeds: [0]
    set: {learning_rate: 5e-4, resolutions: [12]}
"""
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefghij")
)
# fmt: off
VALUES = [
    "", "~", "[]", "{}", "[[]]", "{1: 2}", "{a: 1, a: 2}", "!!python/name:os.system", "!!set {a}", "1:30",
    "1_000", "0x10", "-1", "1e309", "9" * 30, "9" * 5000, "[1000000000]", "[999999999999999999999999]",
    "nan", ".nan", ".inf", "true", "é", "😀", "\u2028", "'", '"', "|", ">", "*a", "&a 1", "[" * 2000,
    "{a: " * 500, "a" * 70_000, "none.yaml", "../x.yaml", "/dev/zero", "roll", "[roll, roll]", "[-1]",
    "[1.5]", "['0']", "2020-01-01", "? x",
]
SPOILED = [
    "", "\0", "\t", "- x", "x", "[", "{", "---\n---", "%TAG ! x", BOMB, "[" * 5000, "a: b\n" * 30_000,
    "%YAML 3.0",
]
# fmt: on


# fmt: off
ODD = [
    None, True, -1, 0, 5.0, 1e300, 10**30, float("nan"), float("inf"), "", "é", "x" * 5000, [], {}, [[]],
    {"": 0}, "[" * 99, "../..", "\udcff", "<script>", 0.5, "2026-13-99T99:99", {"64": 0.5}, {"x": 1.5},
    [None], 2**63,
]
# fmt: on


def with_another_value(text: str, rng: random.Random) -> str:
    """One of the values of a YAML file replaced, or one of its keys."""
    lines = text.splitlines()
    place = rng.choice([i for i, line in enumerate(lines) if ":" in line])
    key, _, _ = lines[place].partition(":")
    new = rng.choice(VALUES)
    lines[place] = f"{key}: {new}" if rng.random() < 0.8 else f"{new}: 1"
    return "\n".join(lines)


def with_other_letters(text: str, rng: random.Random) -> str:
    letters = list(text)
    for _ in range(rng.randrange(1, 5)):
        letters[rng.randrange(len(letters))] = rng.choice("{}[]:,-&*!|>'\"%@`#?\n\t \0é😀0x9")
    return "".join(letters)


def spoil(text: str, rng: random.Random) -> bytes:
    """The bytes of a text file after one accident."""
    lines, place = text.splitlines(keepends=True), rng.randrange(len(text))
    line, other = rng.sample(range(len(lines)), 2)
    accident = rng.randrange(9)
    if accident < 3:
        return with_another_value(text, rng).encode()
    if accident == 3:
        return with_other_letters(text, rng).encode()
    if accident == 4:
        return text.encode()[:place] + rng.randbytes(rng.randrange(1, 20)) + text.encode()[place:]
    if accident == 5:
        return text.encode(rng.choice(["utf-16", "utf-32", "utf-8-sig", "utf-16-le"]))
    if accident == 6:
        return "".join([*lines[:line], rng.choice(["é = ü\n", lines[other], ""]), *lines[line + 1 :]]).encode(
            "latin1"
        )
    if accident == 7:
        return rng.choice(SPOILED).encode()
    return text.encode()[:place]


def test_a_spoiled_recipe_or_plan_is_read_or_refused_in_one_line(tmp_path, monkeypatch, times, tally):
    monkeypatch.setattr("rollpe_lab.training.train", lambda *_, **__: None)
    monkeypatch.setattr("rollpe_lab.commands.train.is_main_process", lambda: False)
    monkeypatch.chdir(tmp_path)
    rng, wrong, tried = random.Random(7), [], 40 * times
    file = tmp_path / "spoiled.yaml"
    for number in range(tried):
        verb, text = (["sweep", "--list"], PLAN) if number % 2 else (["train", "--recipe"], RECIPE)
        file.write_bytes(content := spoil(text, rng))
        if said := complaint([*verb, file.name], monkeypatch):
            wrong.append((verb[0], content[:300], said))
    print(*wrong, sep="\n")
    tally("malformed recipes and plans", tried, tried - len(wrong))


def spoil_record(text: str, rng: random.Random) -> bytes:
    """The bytes of a record after one accident: in its text, or with another value somewhere."""
    if rng.random() < 0.3:
        return rng.choice([spoil(text, rng), b'{"schema_version": 1}', b"null", b"1" * 5000, b"[" * 100_000])
    content = json.loads(text)
    level = content
    while True:
        key = rng.choice(list(level) if isinstance(level, dict) else range(len(level)))
        if not isinstance(level[key], dict | list) or not level[key] or rng.random() < 0.3:
            break
        level = level[key]
    if isinstance(level, dict) and rng.random() < 0.2:
        del level[key]
    else:
        level[key] = rng.choice(ODD)
    return json.dumps(content).encode("utf8", "surrogatepass")


def spoil_arrays(content: bytes, rng: random.Random) -> bytes:
    """The bytes of a file of arrays after one accident."""
    place, buffer = rng.randrange(len(content)), io.BytesIO()
    np.savez(
        buffer,
        **{rng.choice(["order", "spectrum", "x", "../x"]): np.array(rng.choice([[], [1], [[0.5]], ["a"]]))},
    )
    flipped = bytes([content[place] ^ 1 << rng.randrange(8)])
    choices = [content[:place], content[:place] + flipped + content[place + 1 :], buffer.getvalue()]
    return rng.choice([*choices, b"", b"PK", rng.randbytes(100), b"\x93NUMPY", b"\x80\x04."])


def test_a_spoiled_record_is_read_or_refused_in_one_line(tmp_path, monkeypatch, times, tally):
    checks = run_checks(["eq-roll"])
    monkeypatch.setattr("rollpe_book.commands.run_checks", lambda *_, **__: checks)
    monkeypatch.chdir(tmp_path)
    for encoding in ("roll", "learned"):
        shutil.copytree(ROOT / "data/records/quick" / encoding, tmp_path / "data/records/quick" / encoding)
    rng, wrong, tried = random.Random(7), [], 20 * times
    json_file = tmp_path / "data/records/quick/roll/seed-0.json"
    verbs = (["table"], ["table", "--format", "csv"], ["claims"], ["compare", "quick/roll", "quick/learned"])
    for _ in range(tried):
        file, spoiler = rng.choice(
            [
                (json_file, lambda c, r: spoil_record(c.decode(), r)),
                (json_file.with_suffix(".npz"), spoil_arrays),
            ]
        )
        good, verb = file.read_bytes(), rng.choice(verbs)
        file.write_bytes(content := spoiler(good, rng))
        if said := complaint(verb, monkeypatch):
            wrong.append((verb[0], file.suffix, content[:100], said))
        file.write_bytes(good)
    print(*wrong, sep="\n")
    tally("malformed records", tried, tried - len(wrong))
