"""Adam in other coordinates of a ring: when it equals Adam on the twin, and when it depends on no basis."""

from __future__ import annotations

import pytest
import torch

from rollpe.encodings.roll import twin_state_dict
from rollpe.errors import InputError
from rollpe.vit import VisionTransformer, create_vit
from rollpe_lab.training import load_recipe
from rollpe_lab.training.compiling import EAGER
from rollpe_lab.training.second_moment import QueryKeyAdamW
from rollpe_lab.training.step import Step, create_optimizers

STEPS = 3


def trained(start: VisionTransformer, basis: torch.Tensor | None = None, **changes) -> VisionTransformer:
    """The model after some steps on noise; basis: in place of the optimizer's own."""
    recipe = load_recipe("quick", {"weight_decay": 0.1, **changes})
    optimizers = create_optimizers(start, recipe)
    if basis is not None:
        optimizers[1].basis = basis
    step = Step(start.train(), recipe, optimizers, EAGER)
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        images = torch.randn(8, 1, 8, 8, dtype=torch.float64, generator=generator)
        step(images, torch.randint(10, (8,), generator=generator), 0.01)
    return start


def vit(encoding: str) -> VisionTransformer:
    torch.manual_seed(0)
    settings = {"image_size": 8, "patch_size": 2, "channels": 1, "classes": 10, "pool": "avg"}
    model = create_vit(encoding, width=64, heads=2, depth=2, **settings).double()
    for parameter in model.parameters():  # biases that differ from 0
        parameter.data += 0.01 * torch.randn_like(parameter)
    return model


def weights(model: VisionTransformer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def twins() -> tuple[VisionTransformer, VisionTransformer]:
    roll, twin = vit("roll"), vit("roll-twin")
    twin.load_state_dict(twin_state_dict(roll.state_dict(), twin.attentions[0].encoding))
    return roll, twin


def as_twin(roll: VisionTransformer, twin: VisionTransformer) -> torch.Tensor:
    """The weights of `roll` in the twin's basis."""
    other = vit("roll-twin")
    other.load_state_dict(twin_state_dict(roll.state_dict(), twin.attentions[0].encoding))
    return weights(other)


@pytest.mark.parametrize(("of_roll", "of_twin"), [("fourier", "channels"), ("ring", "ring")])
def test_the_step_in_fourier_coordinates_is_the_twins_and_one_scale_has_no_basis(of_roll, of_twin):
    roll, twin = twins()
    trained(roll, second_moment=of_roll)
    trained(twin, second_moment=of_twin)
    torch.testing.assert_close(as_twin(roll, twin), weights(twin), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("coordinates", ["channels", "random"])
def test_in_other_coordinates_it_is_not(coordinates):
    roll, twin = twins()
    trained(roll, second_moment=coordinates)
    trained(twin)
    assert (as_twin(roll, twin) - weights(twin)).abs().max() > 1e-3


def test_in_the_coordinates_of_channels_it_is_torchs_adamw():
    ours = trained(vit("roll"), torch.eye(32, dtype=torch.float64), second_moment="random")
    torch.testing.assert_close(weights(ours), weights(trained(vit("roll"))), rtol=1e-9, atol=1e-12)


def test_each_ring_has_a_random_basis_of_its_own():
    model = vit("roll")
    optimizer = create_optimizers(model, load_recipe("quick", {"second_moment": "random"}))[1]
    assert {p.shape[0] for p in optimizer.param_groups[0]["params"]} == {3 * 64}, "queries, keys and values"
    bases = optimizer.basis.unflatten(1, (2, 16)).unflatten(-1, (2, 16))
    rings = [bases[head, axis, :, axis] for head in range(4) for axis in range(2)]
    for ring in rings:
        torch.testing.assert_close(ring @ ring.mT, torch.eye(16, dtype=torch.float64))
    assert all((ring - rings[0]).abs().max() > 0.1 for ring in rings[1:])
    assert not bases[:, 0, :, 1].any() and not bases[:, 1, :, 0].any()


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="only adamw"):
        load_recipe("quick", {"second_moment": "ring", "optimizer": "lamb"})
    rest = create_vit("none", image_size=8, patch_size=2, width=21, heads=3, depth=1)
    group = {"params": list(rest.attentions[0].qkv.parameters()), "weight_decay": 0.0}
    with pytest.raises(InputError, match="no 2 rings"):
        QueryKeyAdamW([group], rest.attentions[0].encoding, "ring", lr=0.1, betas=(0.9, 0.99))
