"""Augmentation: each change equals torchvision's on the same parameters, each draw has its law."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torchvision.transforms as one_image
import torchvision.transforms.v2.functional as tv
from scipy import stats
from torch import Generator, Tensor
from torchvision.transforms.v2 import InterpolationMode, RandAugment

from refusals import refused
from rollpe_lab.training import augment
from rollpe_lab.training.augment import Augmentation, Augmenter

SEEDS = range(3)
SIZE = (24, 32)
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
UNLIKELY = 1e-4  # smallest p-value a test of a law accepts; the seeds are fixed
EVERYTHING = [
    {"crop": "pad"},
    {"crop": "resized"},
    {"flip": 0.5},
    {"policy": "three-augment"},
    {"policy": "rand-augment", "rand_augment": (2, 14)},
    {"color_jitter": 0.3},
    {"erasing": 0.5},
    {"mixup": 0.8},
    {"cutmix": 1.0},
    {"mixup": 0.8, "cutmix": 1.0, "mix_probability": 0.5},
    {"crop": "resized", "flip": 0.5, "policy": "three-augment", "color_jitter": 0.3}
    | {"erasing": 0.25, "mixup": 0.8, "cutmix": 1.0},
]


def seeded(seed: int) -> Generator:
    return Generator().manual_seed(seed)


def pictures(seed: int, count: int = 6, size: tuple[int, int] = SIZE, channels: int = 3) -> Tensor:
    """Half noise, half smooth, of uneven brightness, so that no operation meets only easy pixels."""
    noise = torch.randint(256, (count, channels, *size), generator=seeded(seed), dtype=torch.uint8)
    smooth = tv.resize(noise[:, :, :4, :5], list(size), antialias=True)
    dim = (smooth.float() * torch.linspace(0.3, 0.8, count).view(-1, 1, 1, 1)).to(torch.uint8)
    return torch.where(torch.arange(count).view(-1, 1, 1, 1) % 2 == 0, noise, dim)


class OneBatch(Augmenter):
    """Augments a single batch of images [B, C, H, W] with labels [B]."""

    def __call__(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        inputs, targets = self.batches(images[None], labels[None], generator)
        return inputs[0], targets[0]


def raw(settings: Augmentation, size: tuple[int, int], classes: int = 2, channels: int = 3) -> OneBatch:
    """An augmenter whose normalization leaves pixel values as they are."""
    return OneBatch(settings, size, (0.0,) * channels, (1 / 255,) * channels, classes)


def assert_within_a_level(ours: Tensor, theirs: Tensor, share: float) -> None:
    """Equal but for at most `share` of the pixels, which differ by one of 255 levels."""
    assert ours.dtype == theirs.dtype == torch.uint8
    difference = (ours.int() - theirs.int()).abs()
    assert difference.max() <= 1
    assert (difference > 0).float().mean() <= share


def one_by_one(change: Callable[..., Tensor], images: Tensor, *parameters) -> Tensor:
    """The images after a change of torchvision's, each with its own parameters."""
    return torch.stack([change(*one) for one in zip(images, *parameters, strict=True)])


def numbered(count: int) -> Tensor:
    """Small images whose first two channels hold their number."""
    number = torch.arange(count)
    channels = torch.stack((number // 256, number % 256, torch.zeros(count)), 1)
    return channels.to(torch.uint8)[..., None, None].expand(count, 3, 8, 8)


def numbers(images: Tensor) -> list[int]:
    return (images[:, 0, 0, 0].int() * 256 + images[:, 1, 0, 0]).tolist()


# Each change against torchvision's, image by image


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("padding", [0, 4, 7])
def test_pad_crop_is_torchvisions_pad_then_crop(seed: int, padding: int):
    images = pictures(seed)
    offsets = torch.randint(2 * padding + 1, (len(images), 2), generator=seeded(seed))
    padded = tv.pad(images, [padding])
    expected = one_by_one(lambda image, at: tv.crop(image, *at, *SIZE), padded, offsets.tolist())
    assert torch.equal(augment.pad_crop(images, offsets, padding), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_resized_crop_is_torchvisions_with_antialiasing(seed: int):
    images = pictures(seed)
    boxes, _ = augment.draw_boxes(seeded(seed), len(images), SIZE, (0.05, 1.0), (0.5, 2.0))
    # torchvision's kernel for uint8 rounds twice, once per axis; ours rounds once, at the end
    crop = partial(tv.resized_crop, size=list(SIZE), antialias=True)
    theirs = one_by_one(lambda image, box: crop(image, *box), images.double(), boxes.tolist())
    expected = theirs.round().to(torch.uint8)
    assert_within_a_level(augment.resized_crop(images, boxes), expected, share=0.01)


def test_flip_mirrors_the_chosen_images_only():
    images = pictures(0)
    chosen = torch.tensor([True, False, True, True, False, False])
    expected = one_by_one(lambda x, c: tv.horizontal_flip(x) if c else x, images, chosen)
    assert torch.equal(augment.flip(images, chosen), expected)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("level", [0, 5, 9, 14, 30])
@pytest.mark.parametrize("name", list(augment.RAND_AUGMENT))
def test_each_rand_augment_operation_is_torchvisions(name: str, level: int, sign: int):
    oracle = RandAugment()
    magnitudes, signed = oracle._AUGMENTATION_SPACE[name]
    assert signed == augment.RAND_AUGMENT[name] and len(augment.RAND_AUGMENT) == 14
    sign = sign if signed else 1
    for seed in SEEDS:
        images = pictures(seed)
        values = magnitudes(31, *SIZE)
        magnitude = 0.0 if values is None else sign * float(values[level])
        settings = {"interpolation": InterpolationMode.NEAREST, "fill": oracle._fill, "magnitude": magnitude}
        change = partial(oracle._apply_image_or_video_transform, transform_id=name, **settings)
        ours = augment.rand_augment(images, name, sign * level)
        # their factors are float32, ours float64: a blend can fall on the other side of an integer
        blends = name in ("Brightness", "Color", "Contrast", "Sharpness")
        assert_within_a_level(ours, one_by_one(change, images), share=0.01 if blends else 0.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (augment.adjust_brightness, tv.adjust_brightness),
        (augment.adjust_contrast, tv.adjust_contrast),
        (augment.adjust_saturation, tv.adjust_saturation),
    ],
)
def test_jitter_with_one_factor_per_image_is_torchvisions(
    ours: Callable[[Tensor, Tensor], Tensor], theirs: Callable[[Tensor, float], Tensor], seed: int
):
    images = pictures(seed)
    for factors, share in (
        (torch.tensor([0.0, 0.5, 0.75, 1.0, 1.25, 2.0]), 0.0),  # exact in binary
        (0.5 + torch.rand(6, generator=seeded(seed)), 1e-3),
    ):
        assert_within_a_level(ours(images, factors), one_by_one(theirs, images, factors.tolist()), share)


@pytest.mark.parametrize("seed", SEEDS)
def test_blur_with_one_sigma_per_image_is_torchvisions(seed: int):
    images = pictures(seed)
    sigmas = torch.tensor([0.1, 0.3, 0.7, 1.0, 1.5, 2.0])
    blur = partial(tv.gaussian_blur, kernel_size=[2 * augment.BLUR_RADIUS + 1] * 2)
    theirs = one_by_one(lambda x, sigma: blur(x, sigma=[sigma, sigma]), images, sigmas.tolist())
    assert_within_a_level(augment.gaussian_blur(images, sigmas), theirs, share=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_erase_is_torchvisions_on_the_chosen_images(seed: int):
    images = pictures(seed).float()
    boxes, _ = augment.draw_boxes(seeded(seed), len(images), SIZE, (0.02, 0.33), (0.3, 3.3))
    chosen = torch.tensor([True, True, False, True, False, True])
    erase = partial(tv.erase, v=torch.zeros(1))
    theirs = one_by_one(lambda x, box, c: erase(x, *box) if c else x, images, boxes.tolist(), chosen)
    assert torch.equal(augment.erase(images, boxes, chosen), theirs)


# The law of each draw


def assert_uniform(values: Tensor, choices: int) -> None:
    counts = values.flatten().bincount(minlength=choices)
    assert len(counts) == choices and stats.chisquare(counts).pvalue > UNLIKELY


def assert_frequency(hits: int, count: int, probability: float) -> None:
    assert stats.binomtest(hits, count, probability).pvalue > UNLIKELY


@pytest.mark.parametrize("seed", SEEDS)
def test_every_window_of_the_padded_image_is_equally_likely(seed: int):
    count, padding, (height, width) = 3000, 2, (7, 9)
    numbered = torch.arange(height * width, dtype=torch.uint8).view(1, 1, height, width)
    settings = Augmentation(crop="pad", crop_padding=padding)
    output, _ = raw(settings, (height, width), channels=1)(
        numbered.expand(count, 1, height, width), torch.zeros(count), seeded(seed)
    )
    middle = output[:, 0, height // 2, width // 2].round().long()  # never padding
    rows, columns = middle // width - height // 2, middle % width - width // 2
    assert_uniform((rows + padding) * 5 + columns + padding, 25)


@pytest.mark.parametrize("seed", SEEDS)
def test_flips_and_erasures_happen_as_often_as_asked_and_independently(seed: int):
    count = 3000
    images = torch.full((count, 1, 8, 8), 200, dtype=torch.uint8)
    images[..., 4:] = 100
    settings = Augmentation(flip=0.3, erasing=0.2)
    output, _ = raw(settings, (8, 8), channels=1)(images, torch.zeros(count), seeded(seed))
    erased = (output.round() == 0).flatten(1).any(1)
    left = torch.where(output.round() == 0, torch.nan, output)[..., :4].nanmean(dim=(1, 2, 3))
    seen = ~left.isnan()
    flipped = left < 150
    assert_frequency(int(erased.sum()), count, 0.2)
    assert_frequency(int(flipped[seen].sum()), int(seen.sum()), 0.3)
    assert_frequency(int((flipped & erased & seen).sum()), int((erased & seen).sum()), 0.3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size", [(32, 32), (24, 40)])
def test_boxes_of_a_crop_have_the_law_of_torchvisions(size: tuple[int, int], seed: int):
    count = 2000
    boxes, _ = augment.draw_boxes(seeded(seed), count, size, (0.08, 1.0), augment.ASPECT)
    torch.manual_seed(seed)
    picture = torch.zeros(3, *size)
    get = one_image.RandomResizedCrop.get_params
    theirs = torch.tensor([get(picture, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(count)])
    for ours, other in zip(boxes.T, theirs.T, strict=True):
        assert stats.ks_2samp(ours, other).pvalue > UNLIKELY


@pytest.mark.parametrize("side", [8, 32])
def test_erased_boxes_have_the_law_of_torchvisions_and_span_no_side(side: int):
    args = (augment.ERASE_AREA, augment.ERASE_ASPECT)
    boxes, found = augment.draw_boxes(seeded(0), 4000, (side, side), *args, whole_sides=False)
    torch.manual_seed(0)
    get, picture = one_image.RandomErasing.get_params, torch.zeros(1, side, side)
    theirs = torch.tensor([get(picture, *args, [0.0])[:4] for _ in range(4000)])
    assert found.all() and boxes[:, 2:].amax() == theirs[:, 2:].amax() == side - 1
    for ours, other in zip(boxes.T, theirs.T, strict=True):
        assert stats.ks_2samp(ours, other).pvalue > UNLIKELY


@pytest.mark.parametrize("size", [(8, 8), (24, 40), (40, 8)])
def test_boxes_lie_inside_and_the_answer_without_a_fit_is_centered(size: tuple[int, int]):
    boxes, found = augment.draw_boxes(seeded(0), 4000, size, (0.5, 1.0), (0.9, 1.1))
    tops, lefts, heights, widths = boxes.T
    assert (boxes[:, :2] >= 0).all() and (boxes[:, 2:] > 0).all()
    assert (tops + heights <= size[0]).all() and (lefts + widths <= size[1]).all()
    if size == (40, 8):
        assert not found.any()
        assert boxes.unique(dim=0).tolist() == [[15, 0, 9, 8]]
    else:
        assert found.float().mean() > 0.4


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("alpha", [0.2, 0.8, 1.0, 3.0])
def test_mixing_weights_follow_the_beta_law(alpha: float, seed: int):
    draws = augment.draw_beta(seeded(seed), 5000, alpha).double()
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(draws.mean() - 0.5) < 4 * (variance / 5000) ** 0.5
    assert draws.var().item() == pytest.approx(variance, rel=0.1)
    assert stats.kstest(draws, stats.beta(alpha, alpha).cdf).pvalue > UNLIKELY


@pytest.mark.parametrize("seed", SEEDS)
def test_three_augment_does_exactly_one_of_its_three_changes_equally_often(seed: int):
    count = 1500
    images = pictures(seed, 6).repeat(count // 6, 1, 1, 1)
    output, _ = raw(Augmentation(policy="three-augment"), SIZE)(images, torch.zeros(count), seeded(seed))
    output = output.round().to(torch.uint8)
    gray = (output == tv.rgb_to_grayscale(images, 3)).flatten(1).all(1)
    solar = (output == tv.solarize(images, 128)).flatten(1).all(1)
    blurred = ~gray & ~solar
    assert not (gray & solar).any()
    assert_uniform(solar + 2 * blurred.long(), 3)

    def roughness(x: Tensor) -> Tensor:
        return x.float().diff(dim=-1).abs().mean(dim=(1, 2, 3))

    change = roughness(output[blurred]) / roughness(images[blurred])
    assert (change <= 1.0001).all() and change.mean() < 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_rand_augment_gives_each_image_n_operations_all_equally_often(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    count, operations, level = 2800, 3, 9
    applied: list[tuple[str, int, list[int]]] = []

    def watched(images: Tensor, name: str, level: int) -> Tensor:
        applied.append((name, level, numbers(images)))
        return images

    monkeypatch.setattr(augment, "rand_augment", watched)
    settings = Augmentation(policy="rand-augment", rand_augment=(operations, level))
    raw(settings, (8, 8))(numbered(count), torch.arange(count), seeded(seed))

    times = torch.zeros(count, dtype=torch.long)
    by_name = dict.fromkeys(augment.RAND_AUGMENT, 0)
    positive = signed = 0
    for name, strength, members in applied:
        assert len(set(members)) == len(members) and abs(strength) == level
        times[members] += 1
        by_name[name] += len(members)
        if augment.RAND_AUGMENT[name]:
            signed += len(members)
            positive += len(members) * (strength > 0)
        else:
            assert strength > 0
    assert times.max() == operations
    by_name["Identity"] += operations * count - int(times.sum())
    assert stats.chisquare(list(by_name.values())).pvalue > UNLIKELY
    assert_frequency(positive, signed, 0.5)


@pytest.mark.parametrize("seed", SEEDS)
def test_color_jitter_draws_its_factors_evenly_and_its_order_at_random(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    count, strength = 1200, 0.4
    history: list[list[int]] = [[] for _ in range(count)]

    def watch(index: int) -> Callable[[Tensor, Tensor], Tensor]:
        def adjust(images: Tensor, factors: Tensor) -> Tensor:
            for member in numbers(images):
                history[member].append(index)
            share = (factors - 1 + strength) / (2 * strength)
            assert stats.kstest(share, stats.uniform.cdf).pvalue > UNLIKELY
            return images

        return adjust

    for index, name in enumerate(("adjust_brightness", "adjust_contrast", "adjust_saturation")):
        monkeypatch.setattr(augment, name, watch(index))
    raw(Augmentation(color_jitter=strength), (8, 8))(numbered(count), torch.arange(count), seeded(seed))
    assert all(sorted(steps) == [0, 1, 2] for steps in history)
    orders = torch.tensor([3 * steps[0] + steps[1] for steps in history])
    assert_uniform(orders.unique(return_inverse=True)[1], 6)


def test_where_no_box_fits_nothing_is_erased():
    images = pictures(0, size=(1, 400))
    output, _ = raw(Augmentation(erasing=1.0), (1, 400))(images, torch.zeros(6), seeded(0))
    assert torch.equal(output.round().to(torch.uint8), images)


# Mixing


def mixed(seed: int, count: int = 200, size: tuple[int, int] = (10, 14), **settings: float):
    """Mix images of one value each, each its own class: (images, targets, own value, partner's)."""
    values = torch.arange(count) + 1
    images = values.to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, *size)
    augmenter = raw(Augmentation(**settings), size, classes=count, channels=1)
    output, targets = augmenter(images, torch.arange(count), seeded(seed))
    partner = targets.clone()
    partner[torch.arange(count), torch.arange(count)] = 0
    alone = partner.sum(1) == 0  # its own partner, or a box without area
    partners = torch.where(alone, torch.arange(count), partner.argmax(1))
    own = targets[torch.arange(count), torch.arange(count)]
    return output[:, 0], targets, own, values.float(), values[partners].float()


@pytest.mark.parametrize("seed", SEEDS)
def test_mixup_mixes_every_pixel_with_the_weight_of_the_target(seed: int):
    images, _, own, value, other = mixed(seed, mixup=0.8)
    expected = (own * value + (1 - own) * other).view(-1, 1, 1).expand_as(images)
    torch.testing.assert_close(images, expected, rtol=1e-5, atol=1e-4)
    assert torch.equal(other.sort().values, value), "each is partner once"
    assert own.unique().numel() > 150  # each image has its own weight


@pytest.mark.parametrize("seed", SEEDS)
def test_cutmix_pastes_one_box_whose_area_is_exactly_the_partners_weight(seed: int):
    images, _, own, value, other = mixed(seed, cutmix=1.0)
    mine, theirs = value.view(-1, 1, 1), other.view(-1, 1, 1)
    images = images.round()
    assert ((images == mine) | (images == theirs)).all()
    pasted = (images != mine) & (images == theirs)
    area = pasted.sum(dim=(1, 2))
    two = value != other
    assert torch.equal(own[two], 1 - area[two].float() / (10 * 14))
    rows, columns = pasted.any(2).sum(1), pasted.any(1).sum(1)
    assert torch.equal(rows * columns, area)
    for lines in (pasted.any(2), pasted.any(1)):  # in one piece
        assert (lines.int().diff(dim=1, prepend=torch.zeros(200, 1)).clamp(min=0).sum(1) <= 1).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_cutmix_boxes_follow_the_weights_drawn_and_reach_the_border(seed: int):
    weights = augment.draw_beta(seeded(seed), 3000, 1.0)
    boxes = augment.draw_cuts(seeded(seed + 100), weights, (40, 60))
    ends = boxes[:, :2] + boxes[:, 2:]
    assert (boxes >= 0).all() and (ends <= torch.tensor([40, 60])).all()
    area = boxes[:, 2] * boxes[:, 3] / (40 * 60)
    assert (area <= 1 - weights + 1e-6).all()  # cutting off only makes it smaller
    whole = ((boxes[:, :2] > 0) & (ends < torch.tensor([40, 60]))).all(1)
    sides = (1 - weights).sqrt()[:, None] * torch.tensor([40, 60])
    assert torch.equal(boxes[whole, 2:], sides[whole].long())
    assert 0.1 < whole.float().mean() < 0.9


def test_with_both_on_half_of_the_images_are_mixed_and_half_are_cut():
    images, _, own, value, other = mixed(0, count=250, mixup=1.0, cutmix=1.0)
    pasted = (images.round() == value.view(-1, 1, 1)) | (images.round() == other.view(-1, 1, 1))
    cut = pasted.flatten(1).all(1)
    apart = (value - other).abs() > 20  # far enough for a blend not to look like either
    blend = (own > 0.1) & (own < 0.9)
    assert_frequency(int(cut[apart & blend].sum()), int((apart & blend).sum()), 0.5)


# The whole


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [None, (16, 20)])
def test_normalized_images_are_torchvisions(channels: int, size: tuple[int, int] | None):
    images, mean, std = pictures(0, channels=channels), MEAN[:channels], STD[:channels]
    resized = tv.resize(images, list(size), antialias=True) if size else images
    theirs = tv.normalize(tv.to_dtype(resized, torch.float32, scale=True), mean, std)
    torch.testing.assert_close(augment.normalize(images, mean, std, size), theirs)


@pytest.mark.parametrize("settings", EVERYTHING, ids=lambda settings: "-".join(settings))
def test_the_generator_alone_decides(settings: dict):
    images, labels = pictures(0, 60), torch.arange(60) % 5
    before = images.clone()
    augmenter = OneBatch(Augmentation(**settings), SIZE, MEAN, STD, classes=5)
    first = augmenter(images, labels, seeded(1))
    torch.manual_seed(7)
    again = augmenter(images, labels, seeded(1))
    other = augmenter(images, labels, seeded(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        in_mixed_precision = augmenter(images, labels, seeded(1))
    assert all(map(torch.equal, first, again)) and all(map(torch.equal, first, in_mixed_precision))
    assert not torch.equal(first[0], other[0])
    assert torch.equal(images, before)  # the data set is not written to
    assert first[0].shape == images.shape and first[0].dtype == torch.float32
    assert first[1].shape == ((60, 5) if augmenter.settings.mixes else (60,))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("settings", EVERYTHING, ids=lambda settings: "-".join(settings))
def test_the_gpu_does_what_the_cpu_does(settings: dict):
    images, labels = pictures(0, 60), torch.arange(60) % 5
    augmenter = OneBatch(Augmentation(**settings), SIZE, MEAN, STD, classes=5)
    cpu = augmenter(images, labels, seeded(1))
    gpu = augmenter(images.cuda(), labels.cuda(), seeded(1))
    assert gpu[0].is_cuda and gpu[1].is_cuda
    assert torch.equal(gpu[1].cpu(), cpu[1])
    far = (gpu[0].cpu() - cpu[0]).abs() > 2.5 / 255 / min(STD)
    assert far.float().mean() < 0.01  # nearest-neighbor ties and equalization may fall otherwise
    augmenter(images.cuda(), labels.cuda(), Generator("cuda").manual_seed(1))


@pytest.mark.parametrize(
    ("settings", "size", "channels", "message"),
    [
        ({"color_jitter": 0.3}, (8, 8), 1, "color_jitter needs three color channels and the images have 1"),
        ({"policy": "three-augment"}, (8, 8), 1, "policy='three-augment' needs three color channels"),
        ({"policy": "rand-augment"}, (8, 8), 1, "policy='rand-augment' needs three color channels"),
        ({"policy": "three-augment"}, (6, 9), 3, "images larger than that, not 6x9"),
    ],
)
def test_settings_that_the_images_do_not_allow_are_refused_in_one_line(
    settings: dict, size: tuple[int, int], channels: int, message: str
):
    with refused(message):
        Augmenter(Augmentation(**settings), size, (0.0,) * channels, (1.0,) * channels, 10)


# Many batches at once

SETTINGS_OF_STRONG = {"crop": "pad", "flip": 0.5, "policy": "rand-augment", "erasing": 0.5} | {
    "mixup": 0.8,
    "cutmix": 1.0,
}


@pytest.mark.parametrize("settings", [{"mixup": 0.8}, {"cutmix": 1.0}, SETTINGS_OF_STRONG])
def test_a_partner_comes_from_the_same_batch(settings: dict):
    batches, size = 5, 40
    labels = torch.arange(batches)[:, None].expand(batches, size)  # the class is the batch
    images = pictures(0, batches * size).view(batches, size, 3, *SIZE)
    augmenter = Augmenter(Augmentation(**settings), SIZE, MEAN, STD, classes=batches)
    _, targets = augmenter.batches(images, labels, seeded(2))
    one = torch.eye(batches)[:, None].expand(batches, size, batches)
    torch.testing.assert_close(targets, one)


SMALL = {"crop": "pad", "crop_padding": 1, "flip": 0.5, "erasing": 0.5}


def batches_of(count: int, size: int, **settings: float):
    """Augment `count` batches of small images of `size` classes: (images, targets, labels)."""
    images = torch.randint(256, (count, size, 1, 6, 8), generator=seeded(11), dtype=torch.uint8)
    labels = torch.arange(size).expand(count, size)
    augmenter = raw(Augmentation(**SMALL, **settings), (6, 8), classes=size, channels=1)
    return *augmenter.batches(images, labels, seeded(5)), labels


@pytest.mark.parametrize("mixing", [{"mixup": 0.8}, {"cutmix": 1.0}, {"mixup": 0.8, "cutmix": 1.0}])
def test_a_batch_is_either_mixed_as_ever_or_not_at_all(mixing: dict):
    count, size, probability = 400, 6, 0.3
    always, their_targets, labels = batches_of(count, size, **mixing)
    never = batches_of(count, size)[0]
    images, targets, _ = batches_of(count, size, **mixing, mix_probability=probability)
    one_hot = torch.nn.functional.one_hot(labels, size).float()
    unmixed = (images == never).flatten(1).all(1) & (targets == one_hot).flatten(1).all(1)
    mixed = (images == always).flatten(1).all(1) & (targets == their_targets).flatten(1).all(1)
    assert (mixed | unmixed).all()
    assert_frequency(int((~unmixed).sum()), count, probability)
    assert images.dtype == always.dtype and images.shape == always.shape
    assert targets.dtype == their_targets.dtype and targets.shape == their_targets.shape


@pytest.mark.parametrize("mixing", [{}, {"mixup": 0.8}, {"mixup": 0.8, "cutmix": 1.0}])
def test_a_certain_mixing_draws_what_was_drawn_before_there_was_a_choice(mixing: dict):
    def augmented(**settings: float) -> tuple[tuple[Tensor, Tensor], Generator]:
        generator = seeded(4)
        augmenter = OneBatch(Augmentation(**settings), SIZE, MEAN, STD, classes=5)
        return augmenter(pictures(0, 12), torch.arange(12) % 5, generator), generator

    (certain, with_key), (plain, without) = augmented(**mixing, mix_probability=1.0), augmented(**mixing)
    assert all(map(torch.equal, certain, plain))
    assert torch.equal(with_key.get_state(), without.get_state())
    if mixing:  # and a doubtful one draws one number for each batch behind them
        _, choosing = augmented(**mixing, mix_probability=0.5)
        torch.rand(1, generator=without)
        assert torch.equal(choosing.get_state(), without.get_state())
