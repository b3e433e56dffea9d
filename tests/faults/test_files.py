"""Files that an editor, a disk or a stranger has spoiled: each is read or refused in one line, and soon."""

from __future__ import annotations

import io
import json
import random
import shutil

import numpy as np
import pytest
from answers import YAML, complaint
from damage import changed, damaged

from rollpe_book.equations import run_checks
from shared import ROOT, make_record

PLAN = """recipe: smoke
set: {epochs: 3, augmentation: {flip: 0.5}}
blocks:
  - encodings: [learned, roll, {roll: {width: 7}}, {multiplexed-roll: {speeds: [1, 1]}}]
    seeds: [0, 1, 2]
  - encodings: [learned+roll]
    seeds: [0]
    set: {learning_rate: 5e-4, resolutions: [12]}
"""
# fmt: off
ODD = (
    None, True, -1, 0, 5.0, 1e300, 10**30, float("nan"), float("inf"), "", "é", "x" * 5000, [], {}, [[]],
    {"": 0}, "../..", "\udcff", "<script>", "2026-13-99T99:99", {"64": 0.5}, {"x": 1.5}, [None], 2**63,
)
# fmt: on


def spoiled_yaml(content: bytes, rng: random.Random) -> bytes:
    """The bytes of a recipe or a plan with another value or key, in another encoding, or damaged."""
    text, accident = content.decode(), rng.randrange(3)
    if accident == 0:
        return damaged(content, rng)
    if accident == 1:
        return text.encode(rng.choice(["utf-16", "utf-32", "utf-8-sig", "utf-16-le"]))
    lines = text.splitlines()
    place = rng.choice([i for i, line in enumerate(lines) if ":" in line])
    key, _, _ = lines[place].partition(":")
    new = rng.choice(YAML)
    lines[place] = f"{key}: {new}" if rng.random() < 0.8 else f"{new}: 1"
    return "\n".join(lines).encode()


def spoiled_record(content: bytes, rng: random.Random) -> bytes:
    """The bytes of a record with an odd value somewhere, or damaged."""
    if rng.random() < 0.3:
        return rng.choice([damaged(content, rng), b'{"schema_version": 1}', b"null", b"[" * 100_000])
    return json.dumps(changed(json.loads(content), rng, ODD)).encode("utf8", "surrogatepass")


def spoiled_arrays(content: bytes, rng: random.Random) -> bytes:
    """The bytes of a file of arrays, damaged or with other arrays."""
    buffer = io.BytesIO()
    np.savez(buffer, **{rng.choice(["order", "../x"]): np.array(rng.choice([[], [1], [[0.5]], ["a"]]))})
    return rng.choice([damaged(content, rng), damaged(content, rng), buffer.getvalue(), b"\x93NUMPY"])


RECORD = "data/records/quick/roll/seed-0.json"
READ = (["table"], ["table", "--format", "csv"], ["claims"], ["compare", "quick/roll", "quick/learned"])


@pytest.mark.parametrize(
    ("file", "spoil", "verbs", "number"),
    [
        ("recipe.yaml", spoiled_yaml, (["train", "--recipe", "recipe.yaml"],), 20),
        ("plan.yaml", spoiled_yaml, (["sweep", "--list", "plan.yaml"],), 20),
        (RECORD, spoiled_record, READ, 12),
        (RECORD.replace("json", "npz"), spoiled_arrays, READ, 8),
    ],
)
def test_a_spoiled_file_is_read_or_refused_in_one_line(
    tmp_path, monkeypatch, times, tally, file, spoil, verbs, number
):
    checks = run_checks(["eq-roll"])
    monkeypatch.setattr("rollpe_book.equations.run_checks", lambda *_, **__: checks)
    monkeypatch.setattr("rollpe_lab.training.train", lambda *_, **__: make_record())
    monkeypatch.chdir(tmp_path)
    for encoding in ("roll", "learned"):
        shutil.copytree(ROOT / "data/records/quick" / encoding, tmp_path / "data/records/quick" / encoding)
    shutil.copy(ROOT / "src/rollpe_lab/training/recipes/smoke.yaml", "recipe.yaml")
    (tmp_path / "plan.yaml").write_text(PLAN)
    rng, wrong, good = random.Random(7), [], (tmp_path / file).read_bytes()
    for _ in range(number * times):
        verb, content = rng.choice(verbs), spoil(good, rng)
        (tmp_path / file).write_bytes(content)
        if said := complaint(verb, monkeypatch):
            wrong.append((verb[0], content[:300], said))
    print(*wrong, sep="\n")
    tally(f"spoiled files: {file}", number * times, number * times - len(wrong))
