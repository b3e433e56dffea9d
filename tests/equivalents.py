"""Faults that change no result: the reason, and what stands in a function only where the fault is in it.

A fragment of the changed source is enough, in one line, with a space for every line break; so edits to the
rest of the line leave these alone. By function, for `mutants.py`.
"""

EQUIVALENT: dict[str, dict[str, str]] = {
    "*": {"strict=False": "the lengths are equal"},
    "rollpe.operators._real": {
        "device=device)).mT": "a number has no axes",
        "device and p.device": "all tests run on one device",
    },
    "rollpe.operators.fourier_matrix": {"/ math.sqrt(n)).mT": "F is symmetric"},
    "rollpe.operators.generator_closed_form": {"math.pi / n / torch.cos": "cos(πd) is its own reciprocal"},
    "rollpe.operators.sheet_laplacian": {"ring_laplacian(width))).mT": "the Laplacian is symmetric"},
    "rollpe.operators.roll_kernel": {
        "remainder(t - n / 2": "n/2 and −n/2 are the same modulo n",
        "t == 0, 1.5": "a stand-in that the next torch.where replaces",
        "t == 0, (-0.5)": "a stand-in that the next torch.where replaces",
    },
    "rollpe.textbook._even": {"d < (1)": "1 is odd"},
    "rollpe.textbook.bit_flips": {"~p | (p + 1)": "it is the negative of the same power of 2"},
    "rollpe.textbook.decay_bound": {"((-0-1j)) * (delta": "conjugate sums have the same modulus"},
    "rollpe.textbook.yarn_frequencies": {"arange(d / 2": "d is even"},
    "rollpe.textbook.t5_bucket": {"buckets: int = 33": "33 // 2 is 16, as is 32 // 2"},
    "rollpe.vit.VisionTransformer.grid_of": {"images.shape[+2:]": "images have four dimensions"},
    "rollpe.vit.VisionTransformer.__init__": {"needs_reset=True": "a new model has nothing to reset"},
    "rollpe.vit.VisionTransformer._features": {
        "use_reentrant=True": "another way to the same gradients",
        "self.grad_checkpointing or": "checkpoints change no result",
    },
    "rollpe.vit.from_timm": {
        "weight.shape[-2]": "patches are square",
        "model.blocks[(-1)]": "all blocks have as many heads",
    },
    "rollpe.vit._rows_first": {"value[(-1)]": "there is one table"},
    "rollpe.encodings.roll._OnRings.warn_of_aliasing": {
        "stacklevel=(2)": "another line is named",
        "stacklevel=4": "another line is named",
    },
    "rollpe.encodings.roll._WholeRoll.whole": {"or True else": "a rounded whole number is itself"},
    "rollpe.encodings.roll._InFourierBasis.rotary_basis": {"device and torch": "all tests run on one device"},
    "rollpe.encodings.roll.ContinuousRoll.__init__": {"self.part / 2:": "a whole number is compared"},
    "rollpe.encodings.roll.MultiplexedRoll.transform": {
        "(self.factor == 1) and False": "a product with 1",
        "self.factor == 2": "a product with 1",
        "self.factor == (0)": "a product with 1",
    },
    "rollpe.encodings.roll.ring_modes": {"n / 2": "n is even"},
    "rollpe.encodings.roll.fourier_basis": {
        '(device.type == "mps") and False': "all tests run on one device"
    },
    "rollpe.encodings.roll.even_division": {"channels + 2": "no number divides the one before it"},
    "rollpe.encodings.roll.rotate": dict.fromkeys(
        ("(width == x.shape[-1]) and False", "x.shape[+1]", "x.shape[-2]", "x.shape[-(0)]"),
        "nothing is left to join",
    ),
    "rollpe.encodings.rotary._holds_complex": dict.fromkeys(
        ("step != 1", "step == 2", "step == (0)", "s / 2 for", "device.type not in"),
        "the formula without complex numbers gives the same",
    ),
    "rollpe.encodings.rotary.Rope.formula": {"positions[..., (-1)]": "there is one axis"},
    "rollpe.encodings.rotary.Rope.tables": dict.fromkeys(
        ("(self.temperature == 1) and False", "self.temperature == 2", "self.temperature == (0)"),
        "a product with 1",
    ),
    "rollpe.encodings.rotary.XPos._formula": {"positions[..., (-1)]": "there is one axis"},
    "rollpe.encodings.rotary.MixedRope.__init__": {
        "torch.arange(d / 4)": "d is a multiple of 4",
        "math.pi / 2), +1)": "the tensors have two dimensions",
    },
    "rollpe.encodings.rotary.MixedRope.place_layers": {
        "layers[1]": "positions are the same for all layers",
        "layers[(-1)]": "positions are the same for all layers",
    },
    "rollpe.encodings.lie.exponential": dict.fromkeys(
        (
            "keepdim=True) * math.sqrt(2)",
            "keepdim=True) / 2",
            "math.sqrt(3)",
            "math.sqrt((1))",
            "or True else 0",
            "extra = 3",
            "extra = (1)",
            "float64 else 1",
            "float64 else (-1)",
            "clamp(1, 60)",
            "clamp((-1), 60)",
            "clamp(0, 61)",
            "clamp(0, (59))",
        ),
        "another number of squarings gives the same rotation",
    )
    | dict.fromkeys(("nan_to_num(1.0)", "nan_to_num((-1.0))"), "what is no number stays none"),
    "rollpe.encodings.lie.Lie.formula": {"None])[..., (-1)]": "there is one column"},
    "rollpe.encodings.absolute.Sinusoidal.fast_code": {"like.shape[-1] / self": "floored twice"},
    "rollpe.encodings.relative.Shaw.by_place": {"[..., (-1)]": "there is one axis"},
    "rollpe.encodings.relative.T5Bias.bias": {"max_distance])[..., (-1)]": "there is one column"},
    "rollpe.encodings.relative.T5Bias._buckets": {"max_distance + 2": "the last row is never read"},
    "rollpe.encodings.relative.offsets": {"or True else p)": "a rounded whole number is itself"},
    "rollpe.encodings.relative.place_columns": dict.fromkeys(
        ("unbind(+1)", "strict=True)], +1)"), "the tensors have two dimensions"
    ),
    "rollpe.encodings.relative.ScoreBias.decode": dict.fromkeys(
        ("q.shape[+2]", "keys.shape[+2]"), "queries and keys have four dimensions"
    ),
    "rollpe.encodings.relative.ScoreBias.mask": dict.fromkeys(
        ("unmarked = q.shape[+2]", "k.shape[+2]"), "queries and keys have four dimensions"
    ),
    "rollpe.encodings.relative.ScoreBias.scores": dict.fromkeys(
        ("q.shape[+2]", "below), +2)"), "queries and keys have four dimensions"
    ),
    "rollpe.statistics.summarize": {"sample[(-1)]": "all values are equal there"},
    "rollpe.statistics.equivalence": {"p <= alpha": "no p is exactly alpha"},
    "rollpe.statistics.paired_by_image": {
        "resamples: int = 2001": "about as many",
        "resamples: int = (1999)": "about as many",
        "only_a - only_b else": "p is 1 where the two are equal",
    },
    "rollpe.statistics.agreement": {
        "resamples: int = 501": "about as many",
        "resamples: int = (499)": "about as many",
        "seed: int = 1": "any seed that is always the same",
        "@ others @ member.T)).mT": "phi is symmetric",
        "(own[:, None] + own) / 2).mT": "phi is symmetric",
        "arm_of[two] != a": "the two arms change places",
    },
    "rollpe.statistics._permuted": {
        "size) < 10_000": "about as many ways",
        "<= 10001": "about as many ways",
        "<= (9999)": "about as many ways",
        "((9998), 1)": "about as many ways",
        "(10000, 1)": "about as many ways",
        "one / 1.0": "a number divided by 1",
        "one * 2.0": "a mean does not depend on the scale of its weights",
        "] < excess(first": "1e-12 is there for those that are equal",
    },
    "rollpe.statistics.repeatability": {
        "splits: int = 51": "about as many",
        "splits: int = (49)": "about as many",
        "seed: int = 1": "any seed that is always the same",
    },
    "rollpe.statistics.seeds_needed": {"alpha) <= target": "no power is exactly the target"},
    "rollpe.training.augment._send": dict.fromkeys(
        (
            'like.device and like.device.type != "cuda"',
            '!= "cuda" and values',
            "values.device != like",
            'like.device.type == "cuda"',
            'values.device.type == "cpu"',
            "non_blocking=True)).mT",
            "non_blocking=False",
        ),
        "with one device there is nothing to send",
    ),
    "rollpe.training.augment._in_groups": {"stable=False": "the order within a group is undone"},
    "rollpe.training.augment.inside": {"boxes[:, :3": "the first two are read"},
    "rollpe.training.augment.pad_crop": {
        "length + 3 * padding": "no window reaches that far",
        "range(3 * padding": "no offset is that large",
        "2 * padding + 2": "no offset is that large",
    },
    "rollpe.training.augment._scaling": {
        "source >= start": "a center of a pixel is never at a border",
        "source <= start": "a center of a pixel is never at a border",
    },
    "rollpe.training.augment.gaussian_blur": {"[:, None] - taps": "the kernel is symmetric"},
    "rollpe.training.augment.rand_augment": {
        "images.shape[+2:]": "images have four dimensions",
        "(0, 2)": "one pixel outside the image is enough",
    },
    "rollpe.training.augment.erase": {"boxes / erases": "a box at infinity holds no pixel"},
    "rollpe.training.augment.Augmenter._mix": {
        "boxes[:, 3] * boxes[:, 3] == 0": "a box without area keeps everything either way",
        "boxes[:, 2] * boxes[:, (2)] == 0": "a box without area keeps everything either way",
    },
    "rollpe.training.augment._sources": {
        "center=[1, 0]": "a shear along an axis has no center on it",
        "center=[(-1), 0]": "a shear along an axis has no center on it",
        "center=[0, 1]": "a shear along an axis has no center on it",
        "center=[0, (-1)]": "a shear along an axis has no center on it",
    },
    "rollpe.training.augment.Augmenter._three_augment": {"choices[:, (-1)]": "there is one column"},
    "rollpe.training.augment.Augmenter.batches": {
        "len(own) <= len(images)": "the way for parts gives the whole, too",
        "is not None or draws_of_these.erases": "they are there together",
        "index_select((-1), rows)": "labels have one dimension",
    },
    "rollpe.training.augment.Augmenter.draw": {
        "<= settings.flip": "no draw is exactly the threshold",
        "<= settings.erasing": "no draw is exactly the threshold",
        "<= settings.mix_probability": "no draw is exactly the threshold",
        "settings.cutmix or 2.0": "what is drawn there is not used",
        "settings.mixup or 2.0": "what is drawn there is not used",
    },
    "rollpe.training.augment.draw_beta": {
        "2**(61)": "as many seeds as anybody needs",
    },
}
