"""Would the checks notice? Small faults are put into the mathematics, and a check must fail for each.

What belongs here: the mutants of `rollpe.operators` and `rollpe.textbook`, made from their syntax trees,
and the list of those that change nothing, with reasons. Guards against bad input (`if …: raise`) are not
mutated: tests/test_operators.py and tests/test_textbook.py hold them.

    python tests/test_mutations.py report.json      writes killed / total for each function
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from rollpe import operators, textbook
from rollpe.equations import EQUATIONS

MODULES = (operators, textbook)
SEEDS = range(5)  # a mutant that survives one random case of each check gets another, up to five

# Statements that differ from the source and compute the same, by function, with the reason.
EQUIVALENT: dict[str, dict[str, str]] = {
    "rollpe.operators.fourier_matrix": {
        "return (torch.exp(-2j * math.pi * (torch.outer(i, i) % n) / n) / math.sqrt(n)).mT": "F is symmetric",
    },
    "rollpe.operators.ring_laplacian": {
        "return (2 * torch.eye(n, dtype=dtype) - S - S.T).mT": "the Laplacian is symmetric",
    },
    "rollpe.operators.sheet_laplacian": {
        "return (rows + torch.kron(torch.eye(height, dtype=torch.float64), ring_laplacian(width))).mT": (
            "the Laplacian is symmetric"
        ),
    },
    "rollpe.operators.generator_closed_form": {
        "column = math.pi / n / torch.cos(math.pi * d) / torch.sin(math.pi * d / n)": (
            "cos(πd) is 1 or −1 at whole d, its own reciprocal"
        ),
    },
    "rollpe.operators.roll_kernel": {
        "t = torch.remainder(t - n / 2, n) - n / 2": "n/2 and −n/2 are the same modulo n",
        "safe = torch.where(t == 0, 1.5, t)": "a stand-in that the next torch.where replaces",
        "safe = torch.where(t == 0, -0.5, t)": "a stand-in that the next torch.where replaces",
    },
    "rollpe.operators.rotation_form": {
        "turning = values >= 1e-09 * torch.linalg.matrix_norm(A)": "no eigenvalue is on the threshold",
    },
    "rollpe.textbook.decay_bound": {
        "phase = torch.exp((-0-1j) * (delta.to(torch.float64)[..., None] * frequencies))": (
            "conjugate sums have the same modulus"
        ),
    },
    "rollpe.textbook.t5_bucket": {
        "def t5_bucket(delta: Tensor, buckets: int=33, max_distance: int=128, bidirectional: bool=True) -> Tensor:": (
            "33 // 2 is 16, as is 32 // 2"
        ),
    },
}

SWAPPED_NAMES = {"sin": "cos", "cos": "sin", "real": "imag", "imag": "real", "mH": "mT", "floor": "ceil"}
DROPPED_CALLS = ("conj", "flip", "abs", "floor", "sqrt", "clamp", "square")
DROPPED_ATTRIBUTES = ("mT", "T", "mH")
SWAPPED_OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.Gt: ast.GtE,
    ast.LtE: ast.Lt,
    ast.GtE: ast.Gt,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """All single faults of one node, as replacements for it."""
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.MatMult):
            yield ast.BinOp(node.right, node.op, node.left)
        elif type(node.op) in SWAPPED_OPERATORS:
            yield ast.BinOp(node.left, SWAPPED_OPERATORS[type(node.op)](), node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(SWAPPED_OPERATORS[type(node.op)](), node.values)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPPED_OPERATORS:
        yield ast.Compare(node.left, [SWAPPED_OPERATORS[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float | complex):
        if isinstance(node.value, complex):
            yield ast.Constant(-node.value)
        elif not isinstance(node.value, bool):
            yield ast.Constant(node.value + 1)
            yield ast.Constant(node.value - 1)
    elif isinstance(node, ast.Attribute):
        if node.attr in SWAPPED_NAMES:
            yield ast.Attribute(node.value, SWAPPED_NAMES[node.attr], ast.Load())
        if node.attr in DROPPED_ATTRIBUTES:
            yield node.value
    elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Tuple):
        yield ast.Return(ast.Attribute(node.value, "mT", ast.Load()))
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in DROPPED_CALLS
    ):
        is_method = not (isinstance(node.func.value, ast.Name) and node.func.value.id in ("torch", "math"))
        yield node.func.value if is_method else node.args[0]


def is_guard(node: ast.AST) -> bool:
    """`if …: raise …`."""
    return isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise)


def mutable_nodes(tree: ast.FunctionDef) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """Every node that may carry a fault, with the innermost statement around it; in a fixed order."""

    def walk(node: ast.AST, statement: ast.stmt) -> Iterator[tuple[ast.stmt, ast.AST]]:
        for name, field in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            for child in field if isinstance(field, list) else [field]:
                if not isinstance(child, ast.AST) or is_guard(child) or isinstance(child, ast.Raise):
                    continue
                inner = child if isinstance(child, ast.stmt) else statement
                yield inner, child
                yield from walk(child, inner)

    yield from walk(tree, tree)


def header(statement: ast.stmt) -> str:
    """One statement as text; of a compound statement, its first line."""
    return ast.unparse(statement).splitlines()[0]


def mutants(tree: ast.FunctionDef) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Each single-fault copy of a function with the changed statement as its name."""
    seen = {header(statement) for statement, _ in mutable_nodes(tree)}
    for position, (_, node) in enumerate(mutable_nodes(tree)):
        for number in range(len(list(variants(node)))):
            mutant = copy.deepcopy(tree)
            statement, target = list(mutable_nodes(mutant))[position]
            replacement = list(variants(target))[number]
            Replace(target, replacement).visit(mutant)
            changed = replacement if target is statement else statement
            name = header(ast.fix_missing_locations(changed))
            if name not in seen:
                seen.add(name)
                yield name, ast.fix_missing_locations(mutant)


class Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self.target, self.replacement = target, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        return self.replacement if node is self.target else super().generic_visit(node)


def functions() -> dict[str, tuple[ModuleType, str]]:
    """Functions that hold mathematics, by dotted name; those that only validate input are left out."""
    validators = {"_whole", "_treatment", "_wavelength", "_real", "_even"}
    found = {}
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and name not in validators:
                found[f"{module.__name__}.{name}"] = (module, name)
    return found


def checks_of(module: ModuleType, name: str) -> list[str]:
    """Labels whose check implements this function; for a helper without one, those of its callers."""
    dotted = f"{module.__name__}.{name}"
    labels = [label for label, equation in EQUATIONS.items() if dotted in equation.implements]
    if labels:
        return labels
    callers = [
        other
        for other, function in inspect.getmembers(module, inspect.isfunction)
        if other != name and name in function.__code__.co_names and function.__module__ == module.__name__
    ]
    return list(dict.fromkeys(label for caller in callers for label in checks_of(module, caller)))


def fastest_first(labels: list[str]) -> list[str]:
    """The checks in the order of their time for one case; they must pass before anything is changed."""
    seconds = {}
    for label in labels:
        start = time.perf_counter()
        assert not notices([label]), f"{label} fails on the unchanged code"
        seconds[label] = time.perf_counter() - start
    return sorted(labels, key=seconds.__getitem__)


def notices(labels: list[str]) -> bool:
    """Whether a check fails, or stumbles, on one random case of each of a few seeds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fault may well cause one
        for seed in SEEDS:
            for label in labels:
                equation = EQUATIONS[label]
                try:
                    if not equation.largest_error(seed, cases=1) <= equation.tolerance:
                        return True
                except Exception:  # whatever the fault breaks, the check has stopped
                    return True
    return False


def survivors(module: ModuleType, name: str) -> tuple[int, list[str]]:
    """How many mutants a function has, and which of them no check notices."""
    original = getattr(module, name)
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(original))).body
    assert isinstance(tree, ast.FunctionDef)
    labels, total, alive = fastest_first(checks_of(module, name)), 0, []
    assert labels, f"no check reaches {name}"
    try:
        for statement, mutant in mutants(tree):
            total += 1
            code = compile(ast.Module([mutant], []), f"<mutant of {name}>", "exec")
            exec(code, module.__dict__)
            if not notices(labels):
                alive.append(statement)
    finally:
        setattr(module, name, original)
    return total, alive


def mutation_report() -> dict:
    """Killed, equivalent and surviving mutants for each function, and in total."""
    rows = {}
    for dotted, (module, name) in functions().items():
        total, alive = survivors(module, name)
        listed = EQUIVALENT.get(dotted, {})
        rows[dotted] = {
            "mutants": total,
            "killed": total - len(alive),
            "equivalent": len([s for s in alive if s in listed]),
            "survived": [s for s in alive if s not in listed],
        }
    keys = ("mutants", "killed", "equivalent")
    return {"functions": rows, "total": {key: sum(row[key] for row in rows.values()) for key in keys}}


def write_mutation_report(path: str | Path) -> dict:
    report = mutation_report()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return report


@pytest.mark.parametrize("dotted", functions())
def test_every_fault_that_changes_a_result_makes_a_check_fail(dotted):
    module, name = functions()[dotted]
    total, alive = survivors(module, name)
    assert total > 0
    assert sorted(alive) == sorted(EQUIVALENT.get(dotted, {}))


def test_the_unchanged_module_is_put_back():
    before = {name: getattr(module, name) for module, name in functions().values()}
    survivors(operators, "shift_matrix")
    assert {name: getattr(module, name) for module, name in functions().values()} == before


if __name__ == "__main__":
    print(json.dumps(write_mutation_report(sys.argv[1])["total"]))
