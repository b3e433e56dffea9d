"""Would the tests notice? Small faults are put into the library, one at a time, and a test must fail.

mutmut makes the mutants of whole modules, and a few more are made here that only mathematics knows: a sine
for a cosine, a forgotten conjugate. Each is swapped into its function in a process of its own, where those
tests that call the function run, the fastest first, until one fails. Survivors that compute the same are
named in `equivalents.py`. Not mutated: texts of errors, assertions, and what runs at import.

    python tests/mutants.py [--every N] [MODULE ...]      survivors and counts; these into book/mutants.csv,
                                                          if every mutant was tried
"""

from __future__ import annotations

import argparse
import csv
import gc
import importlib
import inspect
import json
import os
import re
import resource
import sys
import tempfile
import textwrap
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from operator import itemgetter
from os.path import commonprefix
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

import libcst as cst
import libcst.matchers as m
import pytest
from mutmut.mutation.file_mutation import create_mutations
from mutmut.mutation.mutators import mutation_operators

from equivalents import EQUIVALENT
from shared import ROOT

JUDGES = {  # where the tests of a module are
    **{
        f"rollpe.{name}": ("tests/test_equations.py::test_the_equation_holds", f"tests/test_{name}.py")
        for name in ("operators", "textbook")
    },
    "rollpe.statistics": ("tests/test_statistics.py",),
    "rollpe.training.augment": ("tests/training/test_augment.py",),
    "rollpe.vit": ("tests/test_vit.py", "tests/encodings/test_adapters.py"),
    **{
        f"rollpe.encodings.{room}": (
            "tests/encodings/test_properties.py",
            f"tests/encodings/test_{room}.py",
        )
        for room in ("absolute", "relative", "rotary", "lie", "roll")
    },
}
COUNTS = ROOT / "book/mutants.csv"
PROCESSORS = len(os.sched_getaffinity(0))
COLUMNS = ["faults", "noticed", "equivalent", "missed"]
SECONDS = 30  # of tests, the fastest first, that judge one mutant
QUICK = 1.5  # seconds of a test that may judge: compiled graphs take longer


# More faults than mutmut knows, as it takes them: (type of node, node -> replacements).

SWAPPED = {"sin": "cos", "cos": "sin", "real": "imag", "imag": "real", "mH": "mT", "floor": "ceil"}
DROPPED = ("mT", "T", "mH", "conj", "flip", "abs", "floor", "sqrt", "clamp", "square")


def less_by_one_or_conjugate(node: cst.BaseNumber) -> Iterator[cst.BaseExpression]:
    value = node.evaluated_value
    yield cst.parse_expression(f"({-value if isinstance(value, complex) else value - 1!r})")


def other_side(node: cst.BinaryOperation) -> Iterator[cst.BaseExpression]:
    if isinstance(node.operator, cst.MatrixMultiply):
        yield node.with_changes(left=node.right, right=node.left)


def other_name(node: cst.Attribute) -> Iterator[cst.BaseExpression]:
    if node.attr.value in SWAPPED:
        yield node.with_changes(attr=cst.Name(SWAPPED[node.attr.value]))
    if node.attr.value in DROPPED:
        yield node.value


def without_call(node: cst.Call) -> Iterator[cst.BaseExpression]:
    if m.matches(node.func, m.Attribute(attr=m.MatchIfTrue(lambda attr: attr.value in DROPPED))):
        of_module = m.matches(node.func, m.Attribute(value=m.Name("torch") | m.Name("math")))
        yield node.args[0].value if of_module else node.func.value


def transposed(node: cst.Return) -> Iterator[cst.Return]:
    if node.value is not None and not isinstance(node.value, cst.Tuple):
        value = node.value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.with_changes(value=cst.Attribute(value, cst.Name("mT")))


# None in place of a value, or a missing argument, stops with an error whatever the tests look at.
LEFT_OUT = (cst.Assign, cst.AnnAssign, cst.Call, cst.Lambda, cst.BaseString)
mutation_operators[:] = [
    *((node, operator) for node, operator in mutation_operators if node not in LEFT_OUT),
    (cst.BaseNumber, less_by_one_or_conjugate),
    (cst.BinaryOperation, other_side),
    (cst.Attribute, other_name),
    (cst.Call, without_call),
    (cst.Return, transposed),
]


@dataclass
class Mutant:
    """A function with one fault: where it belongs, its source before and after in one line, and itself."""

    module: ModuleType
    name: str
    before: str
    after: str
    function: FunctionType

    def swap_in(self) -> None:
        original = function_of(self.module, self.name)
        for part in ("__code__", "__defaults__", "__kwdefaults__"):
            setattr(original, part, getattr(self.function, part))

    @property
    def dotted(self) -> str:
        return f"{self.module.__name__}.{self.name}"

    @property
    def declared(self) -> list[tuple[str, str]]:
        """The declarations of `equivalents.py` that this mutant answers to."""
        known = [(name, f) for name in (self.dotted, "*") for f in EQUIVALENT.get(name, ())]
        return [(name, f) for name, f in known if self.after.count(f) > self.before.count(f)]

    def __str__(self) -> str:
        start = commonprefix([self.before, self.after])  # noqa: RUF071 - of texts, not of paths
        rest = [text[len(start) :] for text in (self.before, self.after)]
        end = commonprefix([text[::-1] for text in rest])[::-1]  # noqa: RUF071
        was, now = (text.removesuffix(end) for text in rest)
        return f"{self.dotted}: …{start[-30:]}[{was} → {now}]{end[:30]}…"


def function_of(module: ModuleType, name: str) -> FunctionType:
    """The function or method of this qualified name, without what decorates it."""
    owner, _, own = name.rpartition(".")
    found = vars(getattr(module, owner) if owner else module)[own]
    found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    return inspect.unwrap(found)


def mutants(module: ModuleType, every: int) -> Iterator[Mutant]:
    """Every n-th fault of the module's functions, but for assertions and texts of errors."""
    source = re.sub(r"^ *@\w.*$", "", Path(module.__file__).read_text(), flags=re.M)  # mutmut skips decorated
    tree, mutations, *_ = create_mutations(module.__file__, source)
    spared = m.findall(tree, m.Raise() | m.Assert())
    inside = {n for root in spared for n in m.findall(root, m.MatchIfTrue(lambda _: True))}
    owners = {f: c.name.value for c in tree.body if isinstance(c, cst.ClassDef) for f in c.body.body}
    seen: set[str] = set()
    for mutation in mutations[::every]:
        function = mutation.contained_by_top_level_function
        if not isinstance(function, cst.FunctionDef) or mutation.original_node in inside:
            continue
        owner, own = owners.get(function), function.name.value
        name = f"{owner}.{own}" if owner else own
        mutated = function.deep_replace(mutation.original_node, mutation.mutated_node)
        before, after = (cst.Module([f.with_changes(leading_lines=[])]).code for f in (function, mutated))
        if after == before or name + after in seen:
            continue
        seen.add(name + after)
        body = f"class {owner}:\n{textwrap.indent(after, '    ')}" if owner else after
        space = {**vars(module)}
        exec(compile("from __future__ import annotations\n" + body, module.__file__, "exec"), space)
        changed = vars(space[owner])[own] if owner else space[own]
        if changed.__code__.co_freevars == function_of(module, name).__code__.co_freevars:
            yield Mutant(module, name, " ".join(before.split()), " ".join(after.split()), changed)


def in_children(tasks: Iterable[partial]) -> Iterator[tuple[partial, bool, Any]]:
    """Each task, whether it ended and what it returned, in a process of its own; in the order of the ends."""
    tasks, running = iter(tasks), {}
    while True:
        while len(running) < PROCESSORS and (task := next(tasks, None)):
            file = tempfile.TemporaryFile("w+")
            if not (pid := os.fork()):
                try:
                    json.dump(task(), file)
                    file.flush()
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            running[pid] = task, file
        if not running:
            return
        pid, status = os.wait()
        task, file = running.pop(pid)
        with file:
            file.seek(0)
            answer = file.read()
        assert answer or os.WIFSIGNALED(status), f"{task} raised an error"
        yield task, bool(answer), json.loads(answer or "null")


def passes(test: pytest.Item) -> bool:
    test.config.hook.pytest_runtest_protocol(item=test, nextitem=None)
    return not test.session.testsfailed


def traced(tests: list[pytest.Item], names: dict[str, str]) -> list[tuple[float, list[str]]]:
    """Seconds that each test takes, and which functions of the modules of these files it calls."""
    traces = []
    for test in tests:
        called = set()

        def note(frame: FrameType, event: str, _: object, called: set[str] = called) -> None:
            if event == "call" and (module := names.get(frame.f_code.co_filename)):
                called.add(f"{module}.{frame.f_code.co_qualname.partition('.<locals>')[0]}")

        start = time.process_time()
        sys.setprofile(note)
        assert passes(test), f"{test.nodeid} fails on the unchanged code"
        sys.setprofile(None)
        traces.append((time.process_time() - start, sorted(called)))
    return traces


def noticed(mutant: Mutant, tests: list[pytest.Item]) -> str | None:
    """Which of the tests fails first on a mutant."""
    resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))  # some faults never end
    mutant.swap_in()
    return next((test.nodeid for test in tests if not passes(test)), None)


class Campaign:
    """A plugin for pytest: in place of running each test once, it runs them on mutants."""

    def __init__(self, modules: Iterable[str], every: int) -> None:
        self.every = every
        self.modules = [importlib.import_module(name) for name in modules]
        self.counts: dict[str, Counter] = {name: Counter() for name in modules}
        self.unneeded = {
            (dotted, fragment)
            for dotted, fragments in EQUIVALENT.items()
            if dotted.startswith(tuple(f"{name}." for name in modules))
            for fragment in fragments
        }

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        names = {module.__file__: module.__name__ for module in self.modules}
        judges = defaultdict(list)
        parts = [session.items[i::PROCESSORS] for i in range(PROCESSORS)]
        for task, passed, traces in in_children(partial(traced, part, names) for part in parts):
            assert passed
            for test, (seconds, called) in zip(task.args[0], traces, strict=True):
                for function in called if seconds < QUICK else ():
                    judges[function].append((seconds, test))
        for function, tests in judges.items():
            module = next(name for name in self.counts if function.startswith(f"{name}."))
            tests = sorted((t for t in tests if t[1].nodeid.startswith(JUDGES[module])), key=itemgetter(0))
            cases = Counter()  # each test is tried once before the second of its cases
            tests.sort(key=lambda t: cases.update([t[1].function]) or cases[t[1].function])
            within = accumulate(seconds for seconds, _ in tests)
            judges[function] = [
                test for (_, test), total in zip(tests, within, strict=True) if total <= SECONDS
            ]
        gc.freeze()  # what a child never collects it need not copy
        faults = (mutant for module in self.modules for mutant in mutants(module, self.every))
        tasks = (partial(noticed, f, judges[f.dotted]) for f in faults)
        for task, ended, failed in in_children(tasks):
            mutant, tests = task.args
            if failed:  # it may well notice the next one, too
                tests.sort(key=lambda test: test.nodeid != failed)
            alive = ended and not failed
            outcome = "noticed" if not alive else "equivalent" if mutant.declared else "missed"
            self.counts[mutant.module.__name__].update(["faults", outcome])
            if alive:
                self.unneeded.difference_update(mutant.declared)
            if outcome == "missed":
                print(mutant, flush=True)
        return True


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    wanted = parser.parse_args()
    os.chdir(ROOT)
    campaign = Campaign(wanted.modules or JUDGES, wanted.every)
    tests = sorted({judge for name in campaign.counts for judge in JUDGES[name]})
    options = ["-p", "no:cacheprovider", "-p", "no:terminal", "-o", "addopts=", "--assert=plain"]
    options += ["-k", "not transformers and not compile"]  # every child would take seconds for either
    if pytest.main([*options, *tests], plugins=[campaign]):
        return 2
    rows = {name: [name, *(count[column] for column in COLUMNS)] for name, count in campaign.counts.items()}
    csv.writer(sys.stdout, lineterminator="\n").writerows(rows.values())
    if wanted.every > 1:
        return 0
    if COUNTS.exists():
        with COUNTS.open(encoding="utf8") as file:
            rows = {row[0]: row for row in csv.reader(file)} | rows
    with COUNTS.open("w", newline="", encoding="utf8") as file:
        shown = [rows[name] for name in JUDGES if name in rows]
        csv.writer(file, lineterminator="\n").writerows([["module", *COLUMNS], *shown])
    for dotted, fragment in sorted(campaign.unneeded):
        print(f"{dotted}: {fragment!r} is declared equivalent, and no survivor has it")
    return bool(campaign.unneeded)


if __name__ == "__main__":
    sys.exit(main())
