"""The command line: every verb explains itself, and bad input is one line with exit status 2."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from rollpe.cli import cli, main
from rollpe.encodings import create_encoding
from rollpe.errors import InputError
from rollpe_book.chapters import parameters
from rollpe_lab.bench import read_benchmarks
from rollpe_lab.evidence.compare import compare, find_runs
from rollpe_lab.hashes import source_hash
from rollpe_lab.records import read_records
from rollpe_lab.training import load_recipe, recipes
from rollpe_lab.training.recipe import FOLDER
from shared import DISPLAYED, ROOT, commands, leaves

LABELS = {label for _, _, label in DISPLAYED}

put_back = pytest.mark.usefixtures("known_encodings_are_put_back")


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    try:
        main(list(arguments))
        status = 0
    except SystemExit as stop:
        status = stop.code or 0
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("path", [path for path, _ in leaves()], ids=" ".join)
def test_every_command_has_help_with_an_example(path, capsys):
    status, out, _ = run(capsys, *path, "--help")
    assert status == 0
    assert f"Example: rollpe {' '.join(path)}" in " ".join(out.split())


def examples():
    """Every example of every help, the program's own included, as words."""
    for command in (cli, commands(cli)["data"], *(command for _, command in leaves())):
        yield from re.findall(r"Example: rollpe (.+)", command.help)


@pytest.mark.parametrize("example", sorted(set(examples())))
def test_every_example_is_understood_and_names_what_exists(example):
    command, words = cli, shlex.split(example)
    while commands(command):
        command = commands(command)[words.pop(0)]
    values = command.make_context(command.name, words).params
    for value in values.values():
        if isinstance(value, Path) and value.parts[0] in ("notebooks", "plans"):
            assert (ROOT / value).is_file(), value
    if "parameters" in values and values["file"]:
        parameters.check_parameters(ROOT / values["file"], dict(values["parameters"]))
    if command.name == "compare":
        groups = [find_runs(name, [ROOT / "data/records"]) for name in (values["a"], values["b"])]
        assert compare(*groups).sentence
    if command.name == "train":
        load_recipe(values["recipe"], values["overrides"])
        options = {key: yaml.safe_load(value) for key, value in values["options"].items()}
        create_encoding(values["encoding"], head_dim=64, heads=6, axes=2, grid=(8, 8), **options)
    assert set(values.get("labels", ())) <= LABELS
    if command.name in ("table", "train"):
        assert values["recipe"] in recipes()


OWN = '''
from rollpe.encodings.base import Encoding
from rollpe.encodings.registry import register

@register("own")
class Own(Encoding):
    """Nothing, under another name."""

    acts_on = "scores"

    def __init__(self, *, factor: float = 1.0, **sizes):
        super().__init__(**sizes)
'''


@put_back
def test_an_encoding_of_ones_own_is_trained_and_its_file_is_part_of_the_record(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "own.py"
    file.write_text(OWN)
    command = "train --import own.py --encoding own --option factor=2 --recipe smoke --no-progress".split()
    command += ["--keep-weights"]
    status, _, err = run(capsys, *command)
    assert status == 0, err
    (record,) = read_records("_build/records")
    assert record.run_id.slug == "own@factor=2.0"
    assert "--import own.py" in record.provenance.command
    run(capsys, *record.provenance.command.split()[1:], "--force", "--no-progress", "--keep-weights")
    (again,) = read_records("_build/records")
    assert again.test == record.test and again.provenance.command == record.provenance.command
    assert record.provenance.source_hash == source_hash(also=[file]) != source_hash()
    file.write_text(OWN + "\nchanged = True\n")
    assert record.provenance.source_hash != source_hash(also=[file])
    status, _, err = run(capsys, *command, "--force", "--resume")
    assert status == 2 and "its source differs" in err


@put_back
def test_an_encoding_of_ones_own_is_timed_and_its_file_is_part_of_the_report(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    command = "bench --import own.py --encodings own --device cpu"
    command += " --set batch_size=2 --set compile=false"
    monkeypatch.setattr(sys, "argv", ["rollpe", *command.split()])
    status, _, err = run(capsys, *command.split(), "--records", "reports")
    assert status == 0, err
    (report,) = read_benchmarks("reports")
    assert [timing.name for timing in report.encodings] == ["none", "own"]
    assert report.provenance.command == f"rollpe {command}"
    assert report.provenance.source_hash == source_hash(also=[tmp_path / "own.py"])


def test_help_of_a_recipe_names_them_all(capsys):
    _, out, _ = run(capsys, "train", "--help")
    assert set(recipes()) <= set(re.findall(r"[a-z-]+", out))


# fmt: off
REFUSED = [  # a command line in the project's folder, and a fragment of the answer
    ("train --encoding foo", "multiplexed-roll"),
    ("train --recipe qick", "quick"),
    ("train --set epochs=banana", "banana"),
    ("train --set epochs", "key=value"),
    ("train --set shifts=[1000000000000000000000000000000]", "at most 1,024"),
    ("train --seed -1", "--seed"),
    ("train --device toaster", "cpu"),
    ("train --option width=[1", "not YAML"),
    ("train --encoding multiplexed-roll --option waves=1000000000", "a million"),
    ("train --import TMP/none.py", "none.py"),
    ("train --import TMP/idle.py", "'own' would do nothing"),
    ("train --recipe smoke --records " + "a" * 300, "too long"),
    ("train --recipe quick --encoding roll --records data/records", "--force"),
    ("table --format pdf", "latex"),
    ("table --recipe foo", "quick"),
    ("table --records TMP/missing", "TMP/missing: no such folder"),
    ("table --recipe paper --records src/rollpe", "'paper' has no records in these folders. Recipes"),
    ("claims --records TMP/missing", "TMP/missing: no such folder"),
    ("compare a.json b.json", "a.json: no record to read"),
    ("compare quick/roll quick/rol", "no record's file (.json); there are quick/roll"),
    ("compare quick/roll quick/roll", "both hold the run quick/roll/seed-0"),
    ("compare quick/roll mini/roll", "are not comparable: "),
    ("equations eq-nonsense", "eq-nonsense"),
    ("notebook notebooks/99-none.py", "99-none"),
    ("notebook", "notebooks/11-train.py"),
    ("notebook 11-trian", "notebooks/11-train.py"),
    ("notebook 11-train -p encodng roll", "encoding"),
    ("notebook notebooks/11-train.py -p encoding foo", "axial-rope"),
    ("data fetch imagenet", "cifar100"),
    ("bench --encodings ''", "encoding ''"),
    ("bench --recipe quick --device cpu", "'quick' trains on digits"),
    ("bench --records pyproject.toml/deeper", "cannot write there"),
    ("sweep plans/quick.yaml --list --budget ''", "budget ''"),
    ("sweep plans/quick.yaml --list --budget 1w", "budget '1w'"),
    ("frobnicate", "frobnicate"),
]
# fmt: on


@put_back
@pytest.mark.parametrize(("line", "says"), REFUSED)
def test_bad_input_is_one_line_that_says_what_is_allowed(line, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("rollpe_lab.bench.run.matmul_peak", lambda *_: pytest.fail("it was begun"))
    (tmp_path / "idle.py").write_text(OWN.replace("acts_on", "relative"))
    words = shlex.split(line.replace("TMP", str(tmp_path)))
    words += (
        ["--records", str(tmp_path / "records")] if words[0] == "train" and "--records" not in words else []
    )
    status, out, err = run(capsys, *words)
    assert (status, out, err.count("\n")) == (2, "", 1) and err.startswith("rollpe: "), err
    assert says.replace("TMP", str(tmp_path)) in err
    assert not (tmp_path / "records").exists(), "a refused command writes nothing"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
@pytest.mark.parametrize(
    "line",
    [
        "train --recipe ODD.yaml",
        "train --import ODD.py",
        "sweep ODD.yaml --list",
        "notebook TMP/ODD.py",
        "compare ODD.json quick/roll --records .",
    ],
)
def test_a_pipe_a_folder_or_a_device_given_as_a_file_is_one_line_and_no_wait(
    line, make, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    make(re.search(r"ODD\.\w+", line)[0])
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(5)
    try:
        status, out, err = run(capsys, *line.replace("TMP", str(tmp_path)).split())
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert (status, out, err.count("\n")) == (2, "", 1) and err.startswith("rollpe: "), err
    assert "ODD" in err


def test_what_trains_nothing_answers_without_the_imports_that_take_seconds():
    code = """import sys; from rollpe.cli import VERBS, cli
told = "table", "claims", "compare quick/roll quick/learned", "notebook 11-train --list"
for line in [*told, "sweep plans/mini.yaml --list", *(f"{verb} --help" for verb in VERBS)]:
    cli(line.split(), standalone_mode=False)
assert not {"torch", "scipy.stats"} & {*sys.modules}
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("number", "ends", "said"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
@pytest.mark.parametrize(
    ("module", "arguments", "way_on"),
    [
        ("rollpe_lab.training.train", ["train", "--recipe", "smoke"], "--resume"),
        (
            "rollpe_lab.training.sweep.sweep",
            ["sweep", str(ROOT / "plans/quick.yaml")],
            "the same command resumes",
        ),
        ("rollpe_lab.training.fetch.fetch", ["data", "fetch", "digits"], ""),
        ("rollpe_lab.training.fetch.verify", ["data", "verify", "digits"], ""),
    ],
)
def test_an_interruption_is_one_line_that_says_how_to_go_on(
    module, arguments, way_on, number, ends, said, capsys, monkeypatch
):
    monkeypatch.setattr(module, lambda *_, **__: os.kill(os.getpid(), number))
    before = signal.signal(number, signal.default_int_handler)  # may be ignored
    try:
        status, _, err = run(capsys, *arguments)
        assert signal.getsignal(number) is signal.default_int_handler, "put back"
    finally:
        signal.signal(number, before)
    assert status == ends
    assert err.strip().count("\n") == 0 and said in err and way_on in err
    assert ("resume" in err) == bool(way_on)


def test_a_file_that_ends_too_early_is_no_interruption(capsys, monkeypatch):
    def truncated(*_):
        raise EOFError("Compressed file ended before the end-of-stream marker was reached")

    monkeypatch.setattr("rollpe_lab.training.fetch.verify", truncated)
    status, _, err = run(capsys, "data", "verify", "digits")
    assert status == 2 and "interrupted" not in err and "Compressed file ended" in err


@pytest.mark.parametrize("arguments", [[], ["--help"], ["data"]], ids=" ".join)
def test_a_reader_that_hangs_up_is_answered_with_silence(arguments):
    read, written = os.pipe()
    os.close(read)
    with os.fdopen(written) as out:
        words = [sys.executable, "-m", "rollpe.cli", *arguments]
        done = subprocess.run(words, stdout=out, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "")


def test_letters_that_a_terminal_lacks_are_written_as_numbers(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin1"))
    main(["compare", "quick/roll", "quick/none", "--records", str(ROOT / "data/records")])
    sys.stdout.flush()
    assert rb"A \u2212 B over seeds" in sys.stdout.buffer.getvalue()


def test_a_full_disk_is_one_line_that_names_the_file_and_says_how_to_go_on(capsys, monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    status, _, err = run(capsys, *"train --recipe smoke --set max_steps=1 --no-progress".split())
    assert status == 2 and err.count("\n") == 1
    assert (
        "checkpoints/smoke@max_steps=1/roll/seed-0.pt: No space left on device" in err and "--resume" in err
    )


def paths():
    """Every parameter of every verb that is a path, as the words that come before its value."""
    for path, command in leaves():
        for parameter in command.params:
            if isinstance(parameter.type, click.Path):
                yield [*path, *(parameter.opts[:1] if isinstance(parameter, click.Option) else [])]


@pytest.mark.parametrize("words", list(paths()), ids=" ".join)
def test_an_empty_path_is_not_the_working_folder(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *words, "")
    assert (status, out, err.count("\n")) == (2, "", 1) and "the path is empty" in err
    assert not list(tmp_path.iterdir())


def test_records_are_those_of_the_project_around_and_none_at_all_is_one_line(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT / "notebooks")
    status, out, _ = run(capsys, "table", "--format", "csv")
    assert status == 0 and re.search(r"^roll,\d", out, re.MULTILINE), "measured"
    monkeypatch.chdir(tmp_path)
    for verb in ("table", "claims"):
        status, out, err = run(capsys, verb)
        assert (status, out) == (2, "") and "--records" in err
    (tmp_path / "_build/records").mkdir(parents=True)
    assert "not measured" in run(capsys, "table")[1]


def test_a_table_of_named_folders_lists_only_encodings_that_have_records_there(capsys, tmp_path):
    shutil.copytree(ROOT / "data/records/mini/roll", tmp_path / "mini/roll")
    _, out, _ = run(capsys, "table", "--recipe", "mini", "--records", str(tmp_path), "--format", "csv")
    assert [row.partition(",")[0] for row in out.splitlines()] == ["encoding", "roll"]


def test_an_option_of_an_encoding_is_read_as_a_key_of_a_recipe_is(capsys, monkeypatch, tmp_path):
    seen = {}

    def keep(*_, **settings):
        seen.update(settings)
        raise InputError("nothing is trained here")

    monkeypatch.setattr("rollpe_lab.training.train", keep)
    run(capsys, "train", "--encoding", "axial-rope", "--option", "base=1e2", "--records", str(tmp_path))
    assert seen["encoding_options"] == {"base": 100.0}


# what a stranger types


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("trian --encoding roll", "no command 'trian'. Did you mean 'train'?"),
        ("train --recipe absent.yaml", "recipe absent.yaml: no such file"),
        ("table --recipe absent.yaml", "recipe absent.yaml: no such file"),
        ("train --set lr=3", "Did you mean 'learning_rate'?"),
        ("train --set wd=3", "Did you mean 'weight_decay'?"),
        ("train --device gpu", "gpu"),
        ("sweep {root}/plans/quick.yaml --device gpu", "gpu"),
        ("notebook 06-continuous -p n --output x.ipynb", "-p n: give a value before --output"),
        ("notebook 06-continuous --output x.html", "an executed notebook is an .ipynb file"),
        ("notebook 06-continuous -p n=1000", "n=1000 is not allowed"),
    ],
)
def test_what_a_stranger_types_is_answered_in_a_line(capsys, words, says, monkeypatch):
    monkeypatch.chdir(ROOT)
    status, out, err = run(capsys, *words.format(root=ROOT).split())
    assert status == 2 and says in err and err.count("\n") == 1, err
    assert out == ""


def test_the_device_is_checked_where_nothing_is_left_to_train(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = "train --recipe smoke --set max_steps=1 --encoding none --no-progress".split()
    assert run(capsys, *command)[0] == 0
    assert not [*Path("checkpoints").rglob("*.pt")], "they are removed after success"
    status, _, err = run(capsys, *command, "--device", "gpu")
    assert status == 2 and "gpu" in err and "has a record" not in err
    assert run(capsys, *command, "--force", "--keep-weights", "--checkpoints", "kept")[0] == 0
    assert len([*Path("kept").rglob("*.pt")]) == 1


def test_a_table_knows_the_recipe_of_a_file(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text((FOLDER / "smoke.yaml").read_text().replace("name: smoke\n", ""))
    command = "train --recipe mine.yaml --set max_steps=1 --encoding none --no-progress".split()
    assert run(capsys, *command)[0] == 0
    status, _, err = run(capsys, "table", "--recipe", "mine.yaml", "--records", "_build/records")
    assert status == 2 and "mine@max_steps=1" in err, "it names the recipes that have records"
    run(capsys, *command[:3], *command[5:])
    status, out, _ = run(capsys, "table", "--recipe", "mine.yaml", "--records", "_build/records")
    assert status == 0 and "| `none` |" in out
