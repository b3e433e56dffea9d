"""Augmentation: random changes to training images, in batches, on the device of the images.

The operations are torchvision's, and images stay uint8 until they are normalized. No loop runs over images:
those with the same operation are changed together, so many batches at once are faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np
import torch
import torch.nn.functional as F
import torchvision.transforms.v2.functional as tv
from torch import Generator, Tensor

from rollpe.errors import InputError
from rollpe_lab.training.recipe import LEVELS, Augmentation

ASPECT = (3 / 4, 4 / 3)  # height / width of a resized crop, as in torchvision's RandomResizedCrop
ERASE_AREA, ERASE_ASPECT = (0.02, 0.33), (0.3, 3.3)  # as in torchvision's RandomErasing
DRAWS = 10  # boxes drawn before giving up, as in both
BLUR_SIGMA, BLUR_RADIUS = (0.1, 2.0), 6  # pixels; DeiT III's range, cut off at three sigma
SOLARIZE_THRESHOLD = 128


class Augmenter:
    """Draws parameters for every image and applies the changes of `settings`.

    image_size: pixels (height, width) of the images, before and after.
    mean, std: per channel, of pixels in [0, 1].
    classes: number of classes, of which mixup and cutmix make soft targets.

    Raises InputError for settings that these images do not allow.
    """

    def __init__(
        self,
        settings: Augmentation,
        image_size: tuple[int, int],
        mean: tuple[float, ...],
        std: tuple[float, ...],
        classes: int,
    ) -> None:
        self.settings, self.size = settings, image_size
        self.mean, self.std, self.classes = mean, std, classes
        colored = {
            "color_jitter": settings.color_jitter > 0,
            f"policy={settings.policy!r}": settings.policy != "none",
        }
        for setting in [name for name, wanted in colored.items() if wanted and len(mean) != 3]:
            raise InputError(
                f"{setting} needs three color channels and the images have {len(mean)}: switch it off"
            )
        if settings.policy == "three-augment" and min(self.size) <= BLUR_RADIUS:
            raise InputError(
                f"policy='three-augment' blurs over {BLUR_RADIUS} pixels and needs images larger "
                f"than that, not {self.size[0]}x{self.size[1]}: switch it off"
            )

    @torch.no_grad()
    def batches(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Augment many batches at once: uint8 images [K, B, C, H, W] with labels int64 [K, B].

        Returns float32 images [K, B, C, H, W] and the labels, or, where mixup or cutmix is on, soft targets
        float32 [K, B, classes] whose rows sum to 1. The same generator state gives the same result.
        Parameters are drawn on the generator's device: with a CPU generator the groups are known without
        waiting for the GPU, and both devices see the same draws.
        """
        with torch.autocast(images.device.type, enabled=False):  # pixels need more than bfloat16
            output = self._pixels(images.flatten(0, 1), generator)
            output = normalize(output, self.mean, self.std)
        if self.settings.erasing:
            output = self._erase(output, generator)
        if not self.settings.mixes:
            return output.view(images.shape), labels
        output, targets = self._mix(output, labels, generator)
        return output.view(images.shape), targets.unflatten(0, labels.shape)

    def _pixels(self, images: Tensor, generator: Generator) -> Tensor:
        """The changes of uint8 pixels: crop, flip, policy, color jitter."""
        settings, count = self.settings, len(images)
        if settings.crop == "resized":
            boxes, _ = draw_boxes(generator, count, self.size, settings.crop_scale, ASPECT)
            images = resized_crop(images, boxes)
        if settings.crop == "pad":
            offsets = _integers(generator, 2 * settings.crop_padding + 1, (count, 2))
            images = pad_crop(images, offsets, settings.crop_padding)
        if settings.flip:
            images = flip(images, _uniform(generator, (count,)) < settings.flip)
        if settings.policy == "three-augment":
            images = self._three_augment(images, generator)
        if settings.policy == "rand-augment":
            images = self._rand_augment(images, generator)
        if settings.color_jitter:
            images = self._color_jitter(images, generator)
        return images

    def _three_augment(self, images: Tensor, generator: Generator) -> Tensor:
        low, high = BLUR_SIGMA
        choices = _integers(generator, 3, (len(images),))
        sigmas = low + (high - low) * _uniform(generator, (len(images),))
        changes = [
            lambda group, sigmas: tv.rgb_to_grayscale(group, 3),
            lambda group, sigmas: tv.solarize(group, SOLARIZE_THRESHOLD),
            gaussian_blur,
        ]
        return _in_groups(images, choices, changes, sigmas)

    def _rand_augment(self, images: Tensor, generator: Generator) -> Tensor:
        operations, level = self.settings.rand_augment
        choices = _integers(generator, len(RAND_AUGMENT), (len(images), operations))
        negative = _integers(generator, 2, (len(images), operations))
        changes = [  # operation i at its level, then at its level with the other sign
            partial(rand_augment, name=name, level=sign * level if signed else level)
            for name, signed in RAND_AUGMENT.items()
            for sign in (1, -1)
        ]
        for groups in (2 * choices + negative).T:
            images = _in_groups(images, groups, changes)
        return images

    def _color_jitter(self, images: Tensor, generator: Generator) -> Tensor:
        factors = 1 + self.settings.color_jitter * (2 * _uniform(generator, (len(images), 3)) - 1)
        order = _uniform(generator, (len(images), 3)).argsort(dim=1)
        changes = [
            lambda group, factors: adjust_brightness(group, factors[:, 0]),
            lambda group, factors: adjust_contrast(group, factors[:, 1]),
            lambda group, factors: adjust_saturation(group, factors[:, 2]),
        ]
        for step in order.T:
            images = _in_groups(images, step, changes, factors)
        return images

    def _erase(self, images: Tensor, generator: Generator) -> Tensor:
        count = len(images)
        boxes, found = draw_boxes(generator, count, self.size, ERASE_AREA, ERASE_ASPECT, whole_sides=False)
        return erase(images, boxes, found & (_uniform(generator, (count,)) < self.settings.erasing))

    def _mix(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Mix each of the images [K·B, C, H, W], with labels [K, B], with a partner of its own batch."""
        settings, (count, size), total = self.settings, labels.shape, labels.numel()
        within = _uniform(generator, (count, size)).argsort(dim=1)
        partners = (within + size * torch.arange(count, device=within.device)[:, None]).flatten()
        cut = _integers(generator, 2, (total,)) == 1
        if not (settings.mixup and settings.cutmix):
            cut = torch.full_like(cut, settings.cutmix > 0)
        cut_weights = draw_beta(generator, total, settings.cutmix or 1.0)
        weights = torch.where(cut, cut_weights, draw_beta(generator, total, settings.mixup or 1.0))
        boxes = draw_cuts(generator, weights, self.size)
        area = (boxes[:, 2] * boxes[:, 3]).float() / (self.size[0] * self.size[1])
        weights = torch.where(cut, 1 - area, weights)
        boxes = torch.where(cut[:, None], boxes, 0)
        if settings.mix_probability < 1:  # drawn last and only then, so that all else is drawn as without
            chosen = (_uniform(generator, (count, 1)) < settings.mix_probability).expand(count, size)
            weights = torch.where(chosen.reshape(total), weights, 1.0)
            boxes = torch.where(chosen.reshape(total, 1), boxes, 0)
        boxes, weights = _send(boxes, images), _send(weights, images)
        # a box that was cut out keeps nothing of its own; without one the weight holds everywhere
        whole = (boxes[:, 2] * boxes[:, 3] == 0).view(-1, 1, 1)
        keep = torch.where(whole, weights.view(-1, 1, 1), (~inside(boxes, self.size)).float())
        mixed = images.index_select(0, _send(partners, images)).lerp_(images, keep[:, None])
        targets = torch.zeros(total, self.classes, device=labels.device)
        targets.scatter_(1, labels.flatten()[:, None], 1.0)  # one_hot would wait for the labels
        return mixed, targets.index_select(0, _send(partners, labels)).lerp_(targets, weights[:, None])


def normalize(
    images: Tensor, mean: tuple[float, ...], std: tuple[float, ...], size: tuple[int, int] | None = None
) -> Tensor:
    """uint8 [B, C, H, W], resized to `size` if given, to float32: (pixel/255 - mean)/std, no chance."""
    if size:
        images = tv.resize(images, list(size), antialias=True)
    shift, scale = (_send(torch.tensor(values).view(-1, 1, 1), images) for values in (mean, std))
    return images.float().sub_(255 * shift).mul_(1 / (255 * scale))


# Drawing. Everything is drawn on the generator's device.


def _uniform(generator: Generator, shape: tuple[int, ...]) -> Tensor:
    return torch.rand(shape, generator=generator, device=generator.device)


def _integers(generator: Generator, high: int, shape: tuple[int, ...]) -> Tensor:
    return torch.randint(high, shape, generator=generator, device=generator.device)


def draw_beta(generator: Generator, count: int, alpha: float) -> Tensor:
    """`count` draws from Beta(alpha, alpha), float32 [count].

    NumPy draws them, seeded by the generator: torch's own sampler takes no generator.
    """
    seed = int(_integers(generator, 2**62, (1,)))
    draws = np.random.default_rng(seed).beta(alpha, alpha, count)
    return torch.from_numpy(draws).float().to(generator.device)


def draw_boxes(
    generator: Generator,
    count: int,
    size: tuple[int, int],
    area: tuple[float, float],
    aspect: tuple[float, float],
    whole_sides: bool = True,
) -> tuple[Tensor, Tensor]:
    """Random boxes inside images of `size`: (boxes int64 [count, 4], found bool [count]).

    A box is (top, left, height, width). Its share of the area is uniform in `area`, the logarithm
    of height/width uniform in log `aspect`; the first of DRAWS tries that fits is taken, and its
    place is uniform. Where none fits, found is False and the box is the largest centered one of
    allowed aspect, torchvision's answer for crops.

    whole_sides: whether a box as high or as wide as the image fits; to torchvision one that is cut out
    does, and one that is erased does not.
    """
    height, width = size
    shares = area[0] + (area[1] - area[0]) * _uniform(generator, (DRAWS, count))
    low, high = math.log(aspect[0]), math.log(aspect[1])
    aspects = torch.exp(low + (high - low) * _uniform(generator, (DRAWS, count)))
    heights = (height * width * shares * aspects).sqrt().round().long()
    widths = (height * width * shares / aspects).sqrt().round().long()
    spare = 0 if whole_sides else 1
    fits = (heights > 0) & (heights <= height - spare) & (widths > 0) & (widths <= width - spare)
    first = fits.int().argmax(dim=0, keepdim=True)
    found = fits.any(dim=0)
    centered = min(height, round(width * aspect[1])), min(width, round(height / aspect[0]))
    heights = torch.where(found, heights.gather(0, first)[0], centered[0])
    widths = torch.where(found, widths.gather(0, first)[0], centered[1])
    corner = _uniform(generator, (2, count))
    tops = (corner[0] * (height - heights + 1)).long().where(found, (height - heights) // 2)
    lefts = (corner[1] * (width - widths + 1)).long().where(found, (width - widths) // 2)
    return torch.stack((tops, lefts, heights, widths), dim=1), found


def draw_cuts(generator: Generator, weights: Tensor, size: tuple[int, int]) -> Tensor:
    """CutMix's boxes int64 [B, 4] (top, left, height, width) for weights [B] of the own image.

    The box of √(1 - weight) times each side has its center anywhere in the image and is cut off at
    the border, so the area that counts is that of the box, not the weight drawn.
    """
    sides = torch.tensor(size, device=weights.device)
    lengths = ((1 - weights).sqrt()[:, None] * sides).long()
    centers = (_uniform(generator, (len(weights), 2)) * sides).long()
    starts = (centers - lengths // 2).clamp(min=0)
    ends = torch.minimum(centers - lengths // 2 + lengths, sides)
    return torch.cat((starts, ends - starts), dim=1)


# Changing. Parameters are arguments; images are uint8 [B, C, H, W] unless noted.


def _send(values: Tensor, like: Tensor) -> Tensor:
    """Draws on the device of the images, without waiting for that device."""
    if values.device == like.device or like.device.type != "cuda" or values.device.type != "cpu":
        return values.to(like.device)
    return values.pin_memory().to(like.device, non_blocking=True)


def _in_groups(
    images: Tensor, groups: Tensor, changes: Sequence[Callable[..., Tensor]], *arguments: Tensor
) -> Tensor:
    """changes[g](those images, *those arguments) of the images whose group (int [B]) is g.

    Images of a group are gathered, changed together and put back. Copying whole images is several times as
    fast as writing into selected rows. Arguments hold one value per image.
    """
    order = groups.argsort(stable=True)
    counts = groups.bincount(minlength=len(changes)).tolist()
    pieces = [images.index_select(0, _send(order, images)).split(counts)]
    pieces += [_send(argument[order], images).split(counts) for argument in arguments]
    changed = [change(*members) for change, *members in zip(changes, *pieces, strict=True) if len(members[0])]
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=order.device)
    return torch.cat(changed).index_select(0, _send(back, images))


def inside(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """bool [B, H, W]: which pixels lie in the boxes int64 [B, 4] (top, left, height, width)."""
    start, length = boxes[:, :2, None], boxes[:, 2:, None]
    rows = torch.arange(size[0], device=boxes.device) - start[:, 0]
    columns = torch.arange(size[1], device=boxes.device) - start[:, 1]
    in_rows = (rows >= 0) & (rows < length[:, 0])
    in_columns = (columns >= 0) & (columns < length[:, 1])
    return in_rows[:, :, None] & in_columns[:, None, :]


def pad_crop(images: Tensor, offsets: Tensor, padding: int) -> Tensor:
    """Pad with `padding` zeros and keep the window at offsets int64 [B, 2].

    Offset (padding, padding) is the image itself. Torchvision: RandomCrop(padding=…).
    """
    for axis in (2, 3):
        length = images.shape[axis]
        images = F.pad(images, (padding, padding) if axis == 3 else (0, 0, padding, padding))
        windows = [partial(torch.narrow, dim=axis, start=s, length=length) for s in range(2 * padding + 1)]
        images = _in_groups(images, offsets[:, axis - 2], windows)
    return images


def resized_crop(images: Tensor, boxes: Tensor) -> Tensor:
    """Cut out boxes int64 [B, 4] (top, left, height, width) and scale each to the size of the images.

    Bilinear with antialiasing, as torchvision's RandomResizedCrop: scaling is separable, so it is
    one matrix product per axis with a matrix [B, output, input] per image.
    """
    boxes = _send(boxes, images)
    rows = _scaling(boxes[:, 0], boxes[:, 2], images.shape[2])
    columns = _scaling(boxes[:, 1], boxes[:, 3], images.shape[3])
    return _separable(images.float(), rows, columns).round_().to(images.dtype)


def _scaling(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Weights [B, size, size] that scale [start, start + length) to `size` pixels.

    The triangle is one source pixel wide: a part is never reduced.
    """
    start, length = start[:, None, None].float(), length[:, None, None].float()
    scale = length / size
    target = torch.arange(size, device=start.device)[:, None]
    source = torch.arange(size, device=start.device)[None, :] + 0.5
    distance = (source - (start + scale * (target + 0.5))).abs()
    weights = (1 - distance).clamp(min=0)
    weights = weights * ((source > start) & (source < start + length))
    return weights / weights.sum(dim=2, keepdim=True)


def _separable(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """rows [B, H', H] · image [C, H, W] · columnsᵀ [B, W, W'], for each image of the batch."""
    return rows[:, None].to(images.dtype) @ images @ columns[:, None].mT.to(images.dtype)


def flip(images: Tensor, flips: Tensor) -> Tensor:
    """Mirror left and right where flips, bool [B], is True."""
    return torch.where(_send(flips, images).view(-1, 1, 1, 1), images.flip(-1), images)


def gaussian_blur(images: Tensor, sigmas: Tensor) -> Tensor:
    """Blur each image with its own sigma [B], in pixels; mirrored border.

    Torchvision: gaussian_blur with kernel_size 2·BLUR_RADIUS + 1, up to rounding of a half.
    """
    taps = torch.arange(-BLUR_RADIUS, BLUR_RADIUS + 1, device=images.device)
    kernels = (-0.5 * (taps / _send(sigmas, images)[:, None]) ** 2).softmax(dim=1)

    def matrix(length: int) -> Tensor:
        source = torch.arange(length, device=images.device)[:, None] + taps
        mirrored = (length - 1) - ((length - 1) - source.abs()).abs()
        return torch.einsum("bt,otj->boj", kernels, F.one_hot(mirrored, length).float())

    blurred = _separable(images.float(), matrix(images.shape[2]), matrix(images.shape[3]))
    return blurred.round_().to(images.dtype)


def adjust_brightness(images: Tensor, factors: Tensor) -> Tensor:
    """Each image times its own factor [B], cut off at 255. Torchvision: adjust_brightness."""
    return _blend(images, torch.zeros((), device=images.device), factors)


def adjust_contrast(images: Tensor, factors: Tensor) -> Tensor:
    """Move pixels from the image's mean gray by a factor [B]. Torchvision: adjust_contrast."""
    return _blend(images, _gray(images).mean(dim=(1, 2, 3), keepdim=True), factors)


def adjust_saturation(images: Tensor, factors: Tensor) -> Tensor:
    """Move pixels from their own gray by a factor [B]. Torchvision: adjust_saturation."""
    return _blend(images, _gray(images), factors)


def _gray(images: Tensor) -> Tensor:
    red, green, blue = images.float().unbind(dim=1)
    return (0.2989 * red + 0.587 * green + 0.114 * blue).floor_()[:, None]


def _blend(images: Tensor, other: Tensor, factors: Tensor) -> Tensor:
    factors = factors.view(-1, 1, 1, 1)
    return (images * factors + other * (1 - factors)).clamp_(0, 255).to(images.dtype)


CHANGES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "Identity": lambda x, share: x,
    "ShearX": lambda x, share: tv.affine(x, 0.0, [0, 0], 1.0, [_shear(share), 0.0], center=[0, 0]),
    "ShearY": lambda x, share: tv.affine(x, 0.0, [0, 0], 1.0, [0.0, _shear(share)], center=[0, 0]),
    "TranslateX": lambda x, share: tv.affine(x, 0.0, [_shift(share, x.shape[-1]), 0], 1.0, [0.0, 0.0]),
    "TranslateY": lambda x, share: tv.affine(x, 0.0, [0, _shift(share, x.shape[-2])], 1.0, [0.0, 0.0]),
    "Rotate": lambda x, share: tv.rotate(x, 30.0 * share),
    "Brightness": lambda x, share: tv.adjust_brightness(x, 1 + 0.9 * share),
    "Color": lambda x, share: tv.adjust_saturation(x, 1 + 0.9 * share),
    "Contrast": lambda x, share: tv.adjust_contrast(x, 1 + 0.9 * share),
    "Sharpness": lambda x, share: adjust_sharpness(x, 1 + 0.9 * share),
    "Posterize": lambda x, share: tv.posterize(x, round(8 - 4 * share)),
    "Solarize": lambda x, share: tv.solarize(x, 255 * (1 - share)),
    "AutoContrast": lambda x, share: tv.autocontrast(x),
    "Equalize": lambda x, share: tv.equalize(x),
}
"""RandAugment's operations on images x at a share of the highest magnitude, from -1 to 1.

Names, ranges and nearest-neighbor resampling are those of torchvision's RandAugment.
"""
MOVES = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
"""The operations that only move pixels."""
UNSIGNED = ("Identity", "Posterize", "Solarize", "AutoContrast", "Equalize")
RAND_AUGMENT = {name: name not in UNSIGNED for name in CHANGES}
"""Does the magnitude of the operation have a random sign?"""


def _shear(share: float) -> float:
    return math.degrees(math.atan(0.3 * share))


def _shift(share: float, length: int) -> int:
    return int(150 / 331 * share * length)


def rand_augment(images: Tensor, name: str, level: int) -> Tensor:
    """One RandAugment operation at a level in -LEVELS…LEVELS, the same for all images."""
    if name not in MOVES:
        return CHANGES[name](images, level / LEVELS)
    source = _sources(name, level, *images.shape[-2:], images.device)
    return F.pad(images.flatten(2), (0, 1)).index_select(2, source).view(images.shape)


@cache
def _sources(name: str, level: int, height: int, width: int, device: torch.device) -> Tensor:
    """Which pixel each pixel of a moved image shows, int64 [height·width]; height·width is the outside.

    Nearest-neighbor resampling only moves pixels, so torchvision moves an image of numbers once. The result
    is cached on the device, since torchvision's own call would wait for the device at every batch.
    """
    numbered = 1 + torch.arange(height * width, dtype=torch.float32).view(1, height, width)
    source = CHANGES[name](numbered, level / LEVELS).flatten().long() - 1
    return torch.where(source < 0, height * width, source).to(device)


def adjust_sharpness(images: Tensor, factor: float) -> Tensor:
    """Move pixels from their smoothed selves; the outermost stay. Torchvision: adjust_sharpness."""
    exact = images.float()
    rows = exact[..., :-2, :] + exact[..., 1:-1, :] + exact[..., 2:, :]
    inner = exact[..., 1:-1, 1:-1]
    smooth = (rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]).add_(inner, alpha=4).div_(13).round_()
    inner.lerp_(smooth, 1 - factor)
    return exact.clamp_(0, 255).to(images.dtype)


def erase(images: Tensor, boxes: Tensor, erases: Tensor) -> Tensor:
    """Set a box of each image where erases, bool [B], is True to 0, the mean color once normalized.

    images float [B, C, H, W]; boxes int64 [B, 4] (top, left, height, width).
    """
    boxes = boxes * erases[:, None]  # a box without area holds no pixel
    erased = inside(_send(boxes, images), (images.shape[2], images.shape[3]))
    return images * ~erased[:, None]
