"""What ``import rollpe`` offers, and what editors, type checkers and misspelt names get."""

import importlib.util
import inspect
import subprocess
import sys
from typing import get_args

import pytest
import torch

import rollpe
from rollpe import formulas, ring
from rollpe.encodings import ENCODINGS, encoding_options
from rollpe.errors import InputError
from rollpe.names import EncodingName, Nyquist, Options, Pairing
from shared import ROOT

SIZES = {"head_dim": 16, "heads": 2}


def test_import_is_instant_and_every_listed_name_is_there() -> None:
    alone = (
        "import sys, rollpe; assert 'torch' not in sys.modules; rollpe.Roll; assert 'timm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", alone], check=True)
    names = [name for name in dir(rollpe) if not name.startswith("__")]
    assert {"create_encoding", "MultiheadAttention", "create_vit", "create_decoder", "Roll"} <= set(names)
    assert all(getattr(rollpe, name) is not None for name in names)
    with pytest.raises(AttributeError, match="has no attribute 'roll_it'"):
        rollpe.roll_it  # noqa: B018


def test_names_and_options_for_editors_are_those_that_exist() -> None:
    assert list(get_args(EncodingName)) == rollpe.list_encodings()
    options = {option for name in ENCODINGS for option in encoding_options(name)}
    assert options == set(Options.__annotations__)
    assert get_args(Nyquist) == ring.NYQUIST and get_args(Pairing) == formulas.LAYOUTS
    classes = {name for name, thing in vars(rollpe.encodings).items() if inspect.isclass(thing)}
    assert classes <= set(dir(rollpe)) and {type_.__name__ for type_ in ENCODINGS.values()} <= classes


def test_a_users_program_satisfies_strict_type_checking_and_runs() -> None:
    program = [sys.executable, "-W", "ignore", "tests/typing/program.py"]
    subprocess.run(program, cwd=ROOT, check=True)
    if importlib.util.find_spec("basedpyright"):
        checked = subprocess.run(
            [sys.executable, "-m", "basedpyright"], cwd=ROOT, capture_output=True, text=True
        )
        assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("axial_rope", SIZES, "unknown encoding 'axial_rope'. Did you mean 'axial-rope'?"),
        ("RollPE", SIZES, "Did you mean 'roll'?"),
        ("roll", {"dim": 16, "num_heads": 2}, "Write head_dim= for dim=. Write heads= for num_heads=."),
        ("axial-rope", {**SIZES, "theta": 100.0}, "Did you mean 'base'?"),
        ("roll", {**SIZES, "widht": 5}, "Did you mean 'width'?"),
        ("multiplexed-roll", {**SIZES, "scale": "square"}, "scale='square' must be one of none, sqrt, mean"),
    ],
)
def test_a_refusal_names_what_was_meant(name: str, arguments: dict, words: str) -> None:
    with pytest.raises(InputError) as caught:
        rollpe.create_encoding(name, **arguments)
    assert words in str(caught.value)


def test_dropout_in_torchs_place_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"not 0.1: write dropout="):
        rollpe.MultiheadAttention(64, 4, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "grid", "axes"),
    [
        ("rope", None, 1),
        ("roll", None, 2),
        ("roll", (9,), 1),
        ("sinusoidal+rope", None, 1),
        ("lie", (2, 2, 2), 3),
    ],
)
def test_axes_are_those_of_the_grid_or_what_the_encoding_needs(name, grid, axes) -> None:
    assert rollpe.create_encoding(name, **SIZES, grid=grid).axes == axes


def test_the_representation_shows_every_option() -> None:
    shown = repr(rollpe.create_encoding("sinusoidal", **SIZES, base=100.0))
    assert shown == "Sinusoidal(axes=2, base=100.0, grid=None, head_dim=16, heads=2, scale=1.0)"


@pytest.mark.parametrize("name", ["roll", "twisted-roll", "roll-twin", "continuous-roll", "multiplexed-roll"])
def test_transforms_of_torch_func_go_through_a_roll(name: str) -> None:
    """Forward mode equals a difference quotient; a map over positions equals a loop."""
    encoding = rollpe.create_encoding(name, **SIZES, axes=1).double()
    x, tangent = torch.randn(2, 1, 2, 5, 16 * encoding.waves_in, dtype=torch.float64)
    positions = torch.stack((torch.arange(5.0), torch.arange(5.0) + 3)).double()

    def cubed(x: torch.Tensor) -> torch.Tensor:
        return (encoding.encode(x, positions[0]) ** 3).sum()

    _, forward = torch.func.jvp(cubed, (x,), (tangent,))
    h = 1e-6
    torch.testing.assert_close(forward, (cubed(x + h * tangent) - cubed(x - h * tangent)) / (2 * h))
    curved = torch.func.hessian(cubed)(x).reshape(x.numel(), x.numel())
    torch.testing.assert_close(curved, curved.T)
    assert curved.abs().max() > 0
    mapped = torch.func.vmap(lambda p: encoding.encode(x, p))(positions)
    torch.testing.assert_close(mapped, torch.stack([encoding.encode(x, p) for p in positions]))
