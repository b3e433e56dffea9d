"""Random changes to training images, in batches, on the device where the images lie.

In here: the settings (`Augmentation`), one function per change with its parameters as arguments,
and `Augmenter`, which draws the parameters image by image and applies the changes. Images stay
uint8 until they are normalized, as they do in torchvision, whose operations these are; no loop runs
over images. Not in here: data sets, batches, losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import torch
import torch.nn.functional as F
import torchvision.transforms.v2.functional as tv
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Generator, Tensor

from rollpe.errors import InputError

ASPECT = (3 / 4, 4 / 3)  # height / width of a resized crop, as in torchvision's RandomResizedCrop
ERASE_AREA, ERASE_ASPECT = (0.02, 0.33), (0.3, 3.3)  # as in torchvision's RandomErasing
DRAWS = 10  # boxes drawn before giving up, as in both
BLUR_SIGMA, BLUR_RADIUS = (0.1, 2.0), 6  # pixels; DeiT III's range, cut off at three sigma
SOLARIZE_THRESHOLD = 128
LEVELS = 30  # the highest RandAugment magnitude

RAND_AUGMENT = {  # operation: does its magnitude have a random sign?
    "Identity": False,
    "ShearX": True,
    "ShearY": True,
    "TranslateX": True,
    "TranslateY": True,
    "Rotate": True,
    "Brightness": True,
    "Color": True,
    "Contrast": True,
    "Sharpness": True,
    "Posterize": False,
    "Solarize": False,
    "AutoContrast": False,
    "Equalize": False,
}

Probability = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]


class Augmentation(BaseModel):
    """What happens to a training image, in the order of the fields; everything is off by default.

    Mixing is done per image: each has its own partner and its own weight, and where mixup and
    cutmix are both on, a fair coin decides between them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    crop: Literal["none", "pad", "resized"] = Field(
        "none",
        description="pad: a window of the padded image; resized: a random part, scaled to full size",
    )
    crop_padding: int = Field(4, ge=0, description="pixels on each side, for crop='pad'")
    crop_fill: Literal["zero", "reflect"] = Field("zero", description="what the padding holds")
    crop_scale: tuple[Share, Share] = Field(
        (0.08, 1.0), description="smallest and largest share of the area, for crop='resized'"
    )
    flip: Probability = Field(0.0, description="probability of a horizontal flip")
    policy: Literal["none", "three-augment", "rand-augment"] = Field(
        "none",
        description="three-augment: grayscale, solarize or blur; rand-augment: n of 14 operations",
    )
    rand_augment: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=0, le=LEVELS)]] = Field(
        (2, 9), description=f"operations per image and their magnitude, 0 to {LEVELS}"
    )
    color_jitter: Probability = Field(
        0.0, description="brightness, contrast, saturation: each times a factor in [1 - s, 1 + s]"
    )
    erasing: Probability = Field(0.0, description="probability that a box becomes the mean color")
    mixup: float = Field(0.0, ge=0, description="alpha of the Beta(alpha, alpha) weight; 0 is off")
    cutmix: float = Field(0.0, ge=0, description="alpha of the Beta(alpha, alpha) area; 0 is off")

    @model_validator(mode="after")
    def _scale_in_order(self) -> Augmentation:
        if self.crop_scale[0] > self.crop_scale[1]:
            raise ValueError("crop_scale: the smallest share comes first")
        return self

    @property
    def mixes(self) -> bool:
        """Whether targets are shared between two classes."""
        return self.mixup > 0 or self.cutmix > 0


class Augmenter:
    """Draws parameters for every image and applies what `settings` asks for.

    image_size: pixels (height, width) that come out; images of another size are resized.
    mean, std: per channel, of pixels in [0, 1].
    classes: number of classes; needed for mixup and cutmix, which return soft targets.

    Raises InputError for settings that these images do not allow.
    """

    def __init__(
        self,
        settings: Augmentation,
        image_size: int | tuple[int, int],
        mean: tuple[float, ...],
        std: tuple[float, ...],
        classes: int | None = None,
    ) -> None:
        self.settings = settings
        height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
        self.size = (height, width)
        self.mean, self.std, self.classes = tuple(mean), tuple(std), classes
        colored = {
            "color_jitter": settings.color_jitter > 0,
            f"policy={settings.policy!r}": settings.policy != "none",
        }
        for setting in [name for name, wanted in colored.items() if wanted and len(mean) != 3]:
            raise InputError(
                f"{setting} needs three color channels and the images have {len(mean)}: switch it off"
            )
        if settings.crop == "pad" and settings.crop_fill == "reflect":
            if settings.crop_padding >= min(self.size):
                raise InputError(
                    f"crop_padding={settings.crop_padding} with crop_fill='reflect': at most "
                    f"{min(self.size) - 1} for images of {self.size[0]}x{self.size[1]} pixels"
                )
        if settings.policy == "three-augment" and min(self.size) <= BLUR_RADIUS:
            raise InputError(
                f"policy='three-augment' blurs over {BLUR_RADIUS} pixels and needs images larger "
                f"than that, not {self.size[0]}x{self.size[1]}: switch it off"
            )
        if settings.mixes and classes is None:
            raise InputError("mixup and cutmix need the number of classes: pass classes=")

    @torch.no_grad()
    def __call__(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Augment uint8 images [B, C, H, W] with labels int64 [B].

        Returns float32 images [B, C, *image_size] and the labels, or, where mixup or cutmix is on,
        soft targets float32 [B, classes] whose rows sum to 1. The same generator state gives the
        same result. Parameters are drawn on the generator's device: with a CPU generator the groups
        are known without waiting for the GPU, and both devices see the same draws.
        """
        settings, count = self.settings, len(images)
        with torch.autocast(images.device.type, enabled=False):  # pixels need more than bfloat16
            output = self.normalize(self._pixels(images, generator))
        if settings.erasing:
            boxes, found = draw_boxes(generator, count, self.size, ERASE_AREA, ERASE_ASPECT)
            chosen = found & (_uniform(generator, (count,)) < settings.erasing)
            output = erase(output, boxes, chosen)
        if settings.mixes:
            return self._mix(output, labels, generator)
        return output, labels

    def normalize(self, images: Tensor) -> Tensor:
        """uint8 [B, C, H, W] to float32 [B, C, *image_size], (pixel/255 - mean)/std, no chance."""
        images = self._resize(images)
        mean = torch.tensor(self.mean, device=images.device).view(-1, 1, 1)
        std = torch.tensor(self.std, device=images.device).view(-1, 1, 1)
        return images.float().div_(255).sub_(mean).div_(std)

    def _resize(self, images: Tensor) -> Tensor:
        if tuple(images.shape[-2:]) == self.size:
            return images
        return tv.resize(images, list(self.size), antialias=True)

    def _pixels(self, images: Tensor, generator: Generator) -> Tensor:
        """Everything that happens to uint8 pixels: crop, flip, policy, color jitter."""
        settings, count = self.settings, len(images)
        if settings.crop == "resized":
            size = (images.shape[2], images.shape[3])
            boxes, _ = draw_boxes(generator, count, size, settings.crop_scale, ASPECT)
            images = resized_crop(images, boxes, self.size)
        images = self._resize(images)
        if settings.crop == "pad":
            offsets = _integers(generator, 2 * settings.crop_padding + 1, (count, 2))
            images = pad_crop(images, offsets, settings.crop_padding, settings.crop_fill)
        if settings.flip:
            images = flip(images, _uniform(generator, (count,)) < settings.flip)
        if settings.policy == "three-augment":
            images = self._three_augment(images, generator)
        elif settings.policy == "rand-augment":
            images = self._rand_augment(images, generator)
        if settings.color_jitter:
            images = self._color_jitter(images, generator)
        return images

    def _three_augment(self, images: Tensor, generator: Generator) -> Tensor:
        choice = _integers(generator, 3, (len(images),))
        low, high = BLUR_SIGMA
        sigmas = low + (high - low) * _uniform(generator, (len(images),))
        images = images.clone()
        _change(images, choice == 0, tv.rgb_to_grayscale, 3)
        _change(images, choice == 1, tv.solarize, SOLARIZE_THRESHOLD)
        _change(images, choice == 2, gaussian_blur, sigmas)
        return images

    def _rand_augment(self, images: Tensor, generator: Generator) -> Tensor:
        operations, level = self.settings.rand_augment
        images = images.clone()
        for _ in range(operations):
            choice = _integers(generator, len(RAND_AUGMENT), (len(images),))
            negative = _integers(generator, 2, (len(images),)) == 1
            for index, (name, signed) in enumerate(RAND_AUGMENT.items()):
                drawn = choice == index
                if signed:
                    _change(images, drawn & negative, rand_augment, name, -level)
                    _change(images, drawn & ~negative, rand_augment, name, level)
                elif name != "Identity":
                    _change(images, drawn, rand_augment, name, level)
        return images

    def _color_jitter(self, images: Tensor, generator: Generator) -> Tensor:
        strength, count = self.settings.color_jitter, len(images)
        factors = 1 + strength * (2 * _uniform(generator, (count, 3)) - 1)
        order = _uniform(generator, (count, 3)).argsort(dim=1)
        images = images.clone()
        for step in range(3):
            for index, adjust in enumerate((adjust_brightness, adjust_contrast, adjust_saturation)):
                _change(images, order[:, step] == index, adjust, factors[:, index])
        return images

    def _mix(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        settings, count = self.settings, len(images)
        partners = torch.randperm(count, generator=generator, device=generator.device)
        cut = _integers(generator, 2, (count,)) == 1
        if not (settings.mixup and settings.cutmix):
            cut = torch.full_like(cut, settings.cutmix > 0)
        weights = torch.where(
            cut,
            draw_beta(generator, count, settings.cutmix or 1.0),
            draw_beta(generator, count, settings.mixup or 1.0),
        )
        boxes = draw_cuts(generator, weights, self.size)
        area = (boxes[:, 2] * boxes[:, 3]).float() / (self.size[0] * self.size[1])
        own = torch.where(cut, 1 - area, weights)
        device = images.device
        keep = torch.where(
            cut.view(-1, 1, 1).to(device),
            (~inside(boxes.to(device), self.size)).float(),
            own.view(-1, 1, 1).to(device),
        )
        partners, own = partners.to(device), own.to(device)
        mixed = images[partners].lerp_(images, keep[:, None])
        assert self.classes is not None
        targets = F.one_hot(labels, self.classes).float()
        return mixed, targets[partners].lerp_(targets, own[:, None])


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
) -> tuple[Tensor, Tensor]:
    """Random boxes inside images of `size`: (boxes int64 [count, 4], found bool [count]).

    A box is (top, left, height, width). Its share of the area is uniform in `area`, the logarithm
    of height/width uniform in log `aspect`; the first of DRAWS tries that fits is taken, and its
    place is uniform. Where none fits, found is False and the box is the largest centered one of
    allowed aspect, torchvision's answer for crops.
    """
    height, width = size
    shares = area[0] + (area[1] - area[0]) * _uniform(generator, (DRAWS, count))
    low, high = math.log(aspect[0]), math.log(aspect[1])
    aspects = torch.exp(low + (high - low) * _uniform(generator, (DRAWS, count)))
    heights = (height * width * shares * aspects).sqrt().round().long()
    widths = (height * width * shares / aspects).sqrt().round().long()
    fits = (heights > 0) & (heights <= height) & (widths > 0) & (widths <= width)
    first = fits.int().argmax(dim=0, keepdim=True)
    found = fits.any(dim=0)
    centered = min(height, round(width * aspect[1])), min(width, round(height / aspect[0]))
    heights = torch.where(found, heights.gather(0, first)[0], centered[0])
    widths = torch.where(found, widths.gather(0, first)[0], centered[1])
    place = _uniform(generator, (2, count))
    tops = (place[0] * (height - heights + 1)).long().where(found, (height - heights) // 2)
    lefts = (place[1] * (width - widths + 1)).long().where(found, (width - widths) // 2)
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


# Changing. Parameters come as arguments; images uint8 [B, C, H, W] unless said otherwise.


def _change(
    images: Tensor, group: Tensor, operation: Callable[..., Tensor], *arguments: Tensor | float | str
) -> None:
    """Overwrite the images of a group (bool [B]) with operation(those images, *arguments).

    An argument that is a tensor [B] holds one value per image.
    """
    chosen = group.nonzero()[:, 0]
    if len(chosen):
        own = (part[chosen] if isinstance(part, Tensor) else part for part in arguments)
        there = chosen.to(images.device)
        images[there] = operation(images[there], *own)


def inside(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """bool [B, H, W]: which pixels lie in the boxes int64 [B, 4] (top, left, height, width)."""
    start, length = boxes[:, :2, None], boxes[:, 2:, None]
    rows = torch.arange(size[0], device=boxes.device) - start[:, 0]
    columns = torch.arange(size[1], device=boxes.device) - start[:, 1]
    in_rows = (rows >= 0) & (rows < length[:, 0])
    in_columns = (columns >= 0) & (columns < length[:, 1])
    return in_rows[:, :, None] & in_columns[:, None, :]


def pad_crop(images: Tensor, offsets: Tensor, padding: int, fill: str) -> Tensor:
    """Pad by `padding` ("zero" or "reflect") and keep the window at offsets int64 [B, 2].

    Offset (padding, padding) is the image itself. Torchvision: RandomCrop(padding=…).
    """
    offsets = offsets.to(images.device)
    for axis in (2, 3):
        length = images.shape[axis]
        source = torch.arange(length, device=images.device) + offsets[:, axis - 2, None] - padding
        inner = (source >= 0) & (source < length)
        if fill == "reflect":
            source = (length - 1) - ((length - 1) - source.abs()).abs()
        shape = (-1, 1, length, 1) if axis == 2 else (-1, 1, 1, length)
        index = source.clamp(0, length - 1).view(shape).expand_as(images)
        images = images.gather(axis, index)
        if fill == "zero":
            images = images * inner.view(shape)
    return images


def resized_crop(images: Tensor, boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Cut out boxes int64 [B, 4] (top, left, height, width) and scale each to `size`.

    Bilinear with antialiasing, as torchvision's RandomResizedCrop: scaling is separable, so it is
    one matrix product per axis with a matrix [B, output, input] per image. uint8 is rounded; float
    images stay float.
    """
    boxes = boxes.to(images.device)
    output = images if images.is_floating_point() else images.float()
    rows = _scaling(boxes[:, 0], boxes[:, 2], images.shape[2], size[0])
    columns = _scaling(boxes[:, 1], boxes[:, 3], images.shape[3], size[1])
    output = _separable(output, rows, columns)
    return output if images.is_floating_point() else output.round_().to(images.dtype)


def _scaling(start: Tensor, length: Tensor, inputs: int, outputs: int) -> Tensor:
    """Weights [B, outputs, inputs] that scale [start, start + length) to `outputs` pixels.

    The triangle is one source pixel wide when enlarging and one target pixel when reducing.
    """
    start, length = start[:, None, None].float(), length[:, None, None].float()
    scale = length / outputs
    target = torch.arange(outputs, device=start.device)[:, None]
    source = torch.arange(inputs, device=start.device)[None, :] + 0.5
    distance = (source - (start + scale * (target + 0.5))).abs()
    weights = (1 - distance / scale.clamp(min=1)).clamp(min=0)
    weights = weights * ((source > start) & (source < start + length))
    return weights / weights.sum(dim=2, keepdim=True)


def _separable(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """rows [B, H', H] · image [C, H, W] · columnsᵀ [B, W, W'], for each image of the batch."""
    return rows[:, None].to(images.dtype) @ images @ columns[:, None].mT.to(images.dtype)


def flip(images: Tensor, chosen: Tensor) -> Tensor:
    """Mirror left and right where chosen bool [B]."""
    return torch.where(chosen.to(images.device).view(-1, 1, 1, 1), images.flip(-1), images)


def gaussian_blur(images: Tensor, sigmas: Tensor) -> Tensor:
    """Blur each image with its own sigma [B], in pixels; mirrored border.

    Torchvision: gaussian_blur with kernel_size 2·BLUR_RADIUS + 1, up to rounding of a half.
    """
    taps = torch.arange(-BLUR_RADIUS, BLUR_RADIUS + 1, device=images.device)
    kernels = (-0.5 * (taps / sigmas.to(images.device)[:, None]) ** 2).softmax(dim=1)

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
    factors = factors.to(images.device).view(-1, 1, 1, 1)
    return (images * factors + other * (1 - factors)).clamp_(0, 255).to(images.dtype)


def rand_augment(images: Tensor, name: str, level: int) -> Tensor:
    """One RandAugment operation at a level in -LEVELS…LEVELS, the same for all images.

    Names, ranges and nearest-neighbor resampling are those of torchvision's RandAugment.
    """
    share = level / LEVELS
    no_shift, no_shear = [0, 0], [0.0, 0.0]
    shear = math.degrees(math.atan(0.3 * share))
    shift = 150 / 331 * share
    match name:
        case "Identity":
            return images
        case "ShearX":
            return tv.affine(images, 0.0, no_shift, 1.0, [shear, 0.0], center=[0, 0])
        case "ShearY":
            return tv.affine(images, 0.0, no_shift, 1.0, [0.0, shear], center=[0, 0])
        case "TranslateX":
            return tv.affine(images, 0.0, [int(shift * images.shape[3]), 0], 1.0, no_shear)
        case "TranslateY":
            return tv.affine(images, 0.0, [0, int(shift * images.shape[2])], 1.0, no_shear)
        case "Rotate":
            return tv.rotate(images, 30.0 * share)
        case "Brightness":
            return tv.adjust_brightness(images, 1 + 0.9 * share)
        case "Color":
            return tv.adjust_saturation(images, 1 + 0.9 * share)
        case "Contrast":
            return tv.adjust_contrast(images, 1 + 0.9 * share)
        case "Sharpness":
            return tv.adjust_sharpness(images, 1 + 0.9 * share)
        case "Posterize":
            return tv.posterize(images, round(8 - 4 * share))
        case "Solarize":
            return tv.solarize(images, 255 * (1 - share))
        case "AutoContrast":
            return tv.autocontrast(images)
        case "Equalize":
            return tv.equalize(images)
    raise InputError(f"operation {name!r} is unknown: choose one of {', '.join(RAND_AUGMENT)}")


def erase(images: Tensor, boxes: Tensor, chosen: Tensor) -> Tensor:
    """Set a box of each chosen image (bool [B]) to 0, the mean color once normalized.

    images float [B, C, H, W]; boxes int64 [B, 4] (top, left, height, width).
    """
    boxes, chosen = boxes.to(images.device), chosen.to(images.device)
    erased = inside(boxes, (images.shape[2], images.shape[3])) & chosen[:, None, None]
    return images.masked_fill(erased[:, None], 0.0)
