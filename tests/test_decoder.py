"""The language model: causal, cached generation equal to the full pass, positions beyond training."""

import re
import warnings

import pytest
import torch

from rollpe.decoder import create_decoder
from rollpe.encodings import ENCODINGS
from rollpe.errors import InputError

CLASSES, CONTEXT = 11, 12
PLANE = {"mixed-rope", "spherical-rope"}  # these have two axes
NAMES = [name for name in ENCODINGS if name not in PLANE] + ["learned+roll", "sinusoidal+t5-bias"]


def model(name, **options):
    torch.manual_seed(0)
    settings = {"context": CONTEXT, "classes": CLASSES, "size": "nano", "width": 48, "depth": 2}
    built = create_decoder(name, **settings, encoding_options=options).double().eval()
    with torch.no_grad():  # untrained scores hardly depend on positions
        for parameter in built.parameters():
            parameter.mul_(8 if parameter.ndim > 1 else 1)
    return built


def tokens(length=20, batch=2):
    return torch.randint(CLASSES, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.filterwarnings("ignore:aliased")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cuts", [(1,) * 20, (5, 14, 1)], ids=["token by token", "in pieces"])
def test_cached_pass_equals_full_pass_also_beyond_training(name, cuts):
    built, x = model(name), tokens()
    caches = [None] * 2
    pieces = [built.extend(piece, caches) for piece in x.split(cuts, 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), built(x), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["learned", "learned+rope"])
def test_a_table_before_every_block_enters_each_of_them_also_with_a_cache(name):
    built, once, x = model(name, every_block=True), model(name), tokens()
    for block in once.blocks[1:]:
        block.register_forward_pre_hook(lambda _, given: (given[0] + table(given[0]), *given[1:]))

    def table(x):
        return once.token_encoding.add(torch.zeros_like(x), torch.arange(x.shape[1]))

    torch.testing.assert_close(built(x), once(x), rtol=0, atol=1e-12)
    caches = [None] * 2
    pieces = [built.extend(piece, caches) for piece in x.split((5, 14, 1), 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), built(x), rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore:aliased")
@pytest.mark.parametrize("name", ["roll", "t5-bias", "learned"])
def test_generated_text_is_drawn_from_the_full_pass(name):
    built = model(name)
    with torch.no_grad():
        built.head.weight.mul_(50)  # nearly certain, so that drawing is choosing
    text = built.generate(tokens(3), 15, torch.Generator().manual_seed(0))
    assert text.shape == (2, 18) and torch.equal(text[:, :3], tokens(3))
    chosen = built(text).softmax(-1).gather(2, text[:, 1:, None].long())[:, 2:, 0]
    assert (chosen > 0.01).all()


def test_text_is_generated_without_dropout_and_the_mode_is_as_before():
    torch.manual_seed(0)
    settings = {"context": CONTEXT, "classes": CLASSES, "size": "nano", "width": 48, "depth": 2}
    built = create_decoder("roll", **settings, dropout=0.9, drop_path=0.9)
    expected = built.eval().generate(tokens(3), 9, torch.Generator().manual_seed(0))
    for training in (True, False):
        built.train(training)
        assert torch.equal(built.generate(tokens(3), 9, torch.Generator().manual_seed(0)), expected)
        assert all(module.training == training for module in built.modules())


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_stochastic_depth_grows_evenly_from_none_at_the_first_block(depth):
    settings = {"context": CONTEXT, "classes": CLASSES, "size": "nano", "width": 48, "depth": depth}
    blocks = create_decoder("none", **settings, drop_path=0.4).blocks
    expected = torch.linspace(0, 0.4, depth).tolist()
    for path in ("drop_path1", "drop_path2"):
        rates = [getattr(getattr(block, path), "drop_prob", 0.0) for block in blocks]
        assert rates == pytest.approx(expected)


def test_vectors_of_tokens_start_small_and_take_no_weight_decay():
    built = create_decoder("learned+t5-bias", context=CONTEXT, classes=500, size="nano")
    assert built.embed.weight.std().item() == pytest.approx(0.02, rel=0.03)
    own = {name for name, _ in built.named_parameters() if "encoding." in name}
    assert len(own) == 1 + 5 and built.no_weight_decay() == {"embed.weight"} | own


def test_a_model_without_positions_ignores_the_order_of_earlier_tokens():
    """In one block."""
    torch.manual_seed(0)
    built = create_decoder("none", context=8, classes=CLASSES, size="nano", depth=1).double().eval()
    x = tokens(8)
    reordered = torch.cat((x[:, :7].flip(1), x[:, 7:]), 1)
    torch.testing.assert_close(built(x)[:, -1], built(reordered)[:, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("cuts", [(3, *[1] * 20), (23,)], ids=["token by token", "at once"])
def test_text_longer_than_the_ring_warns_once(cuts):
    built = create_decoder("roll", context=16, classes=CLASSES, size="nano", width=48, heads=3)
    caches, x = [None] * 5, tokens(23)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for piece in x.split(cuts, 1):
            before = len(caught)
            built.extend(piece, caches)
            assert len(caught) == (caches[0][0].shape[2] > 16), before
        built.generate(x, 3)
    (warned,) = caught
    assert "a ring of period 16 takes offset 16 for 0" in str(warned.message)


def test_a_ring_shorter_than_the_window_warns():
    with pytest.warns(UserWarning, match="ring of period 16 takes offset 16 for 0; windows of 17 tokens"):
        create_decoder("roll", context=17, classes=CLASSES, size="nano", width=48, heads=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"context": 0}, "context=0"),
        ({"classes": 0}, "classes=0"),
        ({"size": "huge"}, "size='huge'"),
        ({"width": 50, "heads": 3}, "does not divide"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"encoding": "mixed-rope"}, "two axes"),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        create_decoder(**{"context": 8, "classes": 5, "size": "nano"} | settings)
