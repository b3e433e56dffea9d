"""Page 09-axes: images have two axes: axial, mixed, torus and Lie encodings.

Sources: the paper's App. D; Heo et al. 2024 (axial and mixed RoPE); Ostmeier et al. 2024 (LieRE); Liu et
al. 2025 (which generators make it relative); van de Geijn et al. 2025 (uniform and spherical RoPE, the
"sister paper"); the statements on what can be expressed are ours.
"""

import functools
import math

import torch
from torch import Generator, Tensor

from rollpe import operators, textbook
from rollpe.encodings import create_encoding, scale_positions
from rollpe.encodings.rotary import SphericalRope, UniformRope
from rollpe.equations.cases import (
    count,
    error,
    must_fail,
    normal,
    number,
    orthogonal,
    shift_power,
    skew,
    uniform,
    whole,
)
from rollpe.equations.registry import check


def _grid(rng: Generator) -> Tensor:
    """Positions [N, 2] of all tokens of a non-square grid."""
    rows = count(rng, 2, 3)
    columns = rows + count(rng, 1, 2)
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns))


def _heads(rng: Generator):
    """A head's width, the ring width on each of two axes, and the size of a sub-vector."""
    size = count(rng, 3, 6)
    return 2 * size + count(rng, 0, 1), count(rng, 2, size), size


@check(
    "paper App. D: each coordinate affects a different sub-vector",
    operators.axial_roll,
    operators.axis_slices,
    tolerance=0.0,
)
def eq_axial_roll(rng):
    worst = 0.0
    for full in (True, False):
        head_dim, n, size = _heads(rng)
        n, width = (size, None) if full else (n, n)
        grid = _grid(rng) - 1
        p = torch.stack((grid, grid.flip(0)))  # two images whose tokens come in different orders
        q = normal(rng, 2, len(grid), head_dim)
        rest, idle = torch.eye(head_dim - 2 * size).double(), torch.eye(size - n).double()
        slow = torch.empty_like(q)
        for image in (0, 1):
            for t, (y, x) in enumerate(p[image]):
                blocks = torch.block_diag(shift_power(n, y), idle, shift_power(n, x), idle, rest)
                slow[image, t] = blocks @ q[image, t]
        worst = max(worst, error(operators.axial_roll(q, p, width), slow))
        worst = max(worst, error(operators.axial_roll(q, grid, width)[0], slow[0]))
    return worst


@check("ours; App. B on two axes", operators.axial_roll, tolerance=1e-11)
def eq_axial_score(rng):
    head_dim, n, size = _heads(rng)
    p = _grid(rng)
    q, k = normal(rng, len(p), head_dim), normal(rng, len(p), head_dim)
    scores = operators.axial_roll(q, p, n) @ operators.axial_roll(k, p, n).T
    moving = torch.zeros(head_dim, dtype=torch.bool)
    slow = torch.zeros_like(scores)
    for axis in (0, 1):
        ring = slice(axis * size, axis * size + n)
        moving[ring] = True
        for i in range(len(p)):
            for j in range(len(p)):
                slow[i, j] += q[i, ring] @ torch.roll(k[j, ring], int(p[i, axis] - p[j, axis]))
    return error(scores, slow + q[:, ~moving] @ k[:, ~moving].T)


@check("ours", operators.axial_roll, tolerance=1e-11)
def eq_axial_additive(rng):
    """Opposite corners of a rectangle of offsets add up to the same."""
    head_dim, n, _ = _heads(rng)
    q, k = normal(rng, head_dim), normal(rng, head_dim)
    a, b = whole(rng, -9, 9, 2), whole(rng, -9, 9, 2)
    offsets = torch.cartesian_prod(a, b)  # (a, b), (a, b'), (a', b), (a', b')
    c = operators.axial_roll(k.expand(4, -1), offsets, n) @ q
    return error(c[0] - c[2], c[1] - c[3])


@check("ours; App. D on a grid", operators.torus_roll, tolerance=0.0)
def eq_grid_offsets(rng):
    sizes = (count(rng, 2, 4), count(rng, 5, 6))
    worst = 0.0
    for lack in (0, 1):  # one channel too few on the second axis makes its extreme offsets agree
        sheet = (2 * sizes[0] - 1, 2 * sizes[1] - 1 - lack)
        ranges = [torch.arange(1 - G, G) for G in sizes]
        offsets = torch.cartesian_prod(*ranges)
        x = torch.arange(sheet[0] * sheet[1]).expand(len(offsets), -1)
        distinct = len(operators.torus_roll(x, offsets, sheet).unique(dim=0))
        wanted = (2 * sizes[0] - 1) * (2 * sizes[1] - 1)
        worst = max(worst, float(abs(distinct - (wanted if not lack else sheet[0] * sheet[1]))))
        worst = max(worst, 0.0 if (distinct == wanted) == (not lack) else math.inf)
    return worst


@check("ours; how encodings of real positions meet another resolution", scale_positions, tolerance=1e-11)
def eq_resolution(rng):
    built, finer = (count(rng, 2, 4), count(rng, 5, 7)), (count(rng, 2, 3), count(rng, 4, 5))
    shown = tuple(G * r for G, r in zip(built, finer, strict=True))  # every patch cut into r_y × r_x
    fine = torch.cartesian_prod(*(torch.arange(G).double() for G in shown))
    coarse = torch.cartesian_prod(*(torch.arange(G).double() for G in built))
    positions = scale_positions(fine, shown, built).unflatten(0, shown)
    pieces = positions.unflatten(1, (built[1], finer[1])).unflatten(0, (built[0], finer[0]))
    middles = pieces.mean((1, 3)).flatten(0, 1)  # the pieces of a patch surround its old position
    steps = [positions.diff(dim=axis) for axis in (0, 1)]  # evenly: 1/r along an axis, nothing across it
    even = [
        torch.eye(2)[axis].double().expand_as(step) / r
        for axis, (step, r) in enumerate(zip(steps, finer, strict=True))
    ]
    return max(
        error(middles, coarse),
        *(error(step, same) for step, same in zip(steps, even, strict=True)),
        error(scale_positions(coarse, built, built), coarse),
    )


@check("ours; the sister paper gives the class token no position", operators.axial_roll, tolerance=0.0)
def eq_class_token(rng):
    head_dim, n, _ = _heads(rng)
    p = _grid(rng)
    q, k = normal(rng, head_dim), normal(rng, len(p), head_dim)
    rolled = operators.axial_roll(k, p, n)
    at_zero = operators.axial_roll(q.expand(1, -1), torch.zeros(1, 2, dtype=torch.int64), n)[0]
    shifted = operators.axial_roll(k, p + 1, n)
    return error(rolled @ q, rolled @ at_zero) + must_fail(error(shifted @ q, rolled @ q), least=1e-3)


@check("Heo et al. 2024, axial RoPE", textbook.mixed_angles, operators.rotate_pairs, tolerance=1e-11)
def eq_axial_rope(rng):
    m, p = count(rng, 2, 4), _grid(rng).double()
    theta, q = uniform(rng, 0.1, 2, m), normal(rng, 2, len(p), 4 * m)
    along = torch.zeros(2 * m, 2).double()
    along[:m, 0], along[m:, 1] = theta, theta
    moved = operators.rotate_pairs(q, textbook.mixed_angles(p, along))
    rows = textbook.rope(q[..., : 2 * m], p[:, 0], theta)
    columns = textbook.rope(q[..., 2 * m :], p[:, 1], theta)
    return error(moved, torch.cat((rows, columns), -1))


@check("Heo et al. 2024, mixed RoPE", textbook.mixed_angles, textbook.rotation_matrix, tolerance=1e-11)
def eq_mixed_rope(rng):
    omega, p = normal(rng, count(rng, 3, 5), 2), uniform(rng, -9, 9, 2, 2)
    angles = textbook.mixed_angles(p, omega)
    slow = torch.stack([torch.stack([p[t, 0] * w[0] + p[t, 1] * w[1] for w in omega]) for t in (0, 1)])
    R = [textbook.rotation_matrix(row) for row in angles]
    between = textbook.rotation_matrix(textbook.mixed_angles(p[1:] - p[:1], omega)[0])
    return max(error(angles, slow), error(R[0].T @ R[1], between))


@check(
    "Ostmeier et al. 2024 (LieRE), cited for the paper's Theorem 1", textbook.lie_rotation, tolerance=1e-10
)
def eq_lie(rng):
    n, p = count(rng, 2, 6), uniform(rng, -2, 2, 3, 2)
    A = torch.stack((skew(rng, n), skew(rng, n)))
    R = textbook.lie_rotation(p, A)
    worst = error(R.mT @ R, torch.eye(n).double().expand(3, n, n))
    for t in range(3):
        V, omega = operators.rotation_form(p[t, 0] * A[0] + p[t, 1] * A[1])
        turned = torch.block_diag(textbook.rotation_matrix(omega), torch.eye(n % 2).double())
        worst = max(worst, error(R[t], V @ turned @ V.T))
    return worst


@check("Liu et al. 2025; van de Geijn et al. 2025 for the question", textbook.lie_rotation, tolerance=1e-10)
def eq_lie_relative(rng):
    n, p = 2 * count(rng, 2, 3), uniform(rng, 0.5, 1.5, 2, 2)
    p[1] = p[0] + torch.tensor([1.0, -1.0])
    V = orthogonal(rng, n)
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).double()
    common = torch.stack([V @ torch.kron(torch.diag(normal(rng, n // 2)), turn) @ V.T for _ in range(2)])
    generic = torch.stack((skew(rng, n), skew(rng, n)))
    nearly = common + 1e-3 * generic
    weight, origin = normal(rng, n, n), torch.zeros(2).double()

    def residual(A):
        R, between = textbook.lie_rotation(p, A), textbook.lie_rotation(p[1:] - p[:1], A)[0]
        return error(R[0].T @ R[1], between)

    def order(A, steps):  # what the order of a step down and a step to the right changes
        down, right = textbook.lie_rotation(torch.diag(steps), A)
        return (weight * (down @ right - right @ down)).sum()

    def converse(A):  # a relative encoding changes nothing; to second order the change is the commutator
        curvature = torch.autograd.functional.hessian(functools.partial(order, A), origin)[0, 1]
        return error(curvature, (weight * (A[0] @ A[1] - A[1] @ A[0])).sum())

    different = must_fail(residual(generic), least=1e-2) + must_fail(residual(nearly), least=1e-7)
    return max(residual(common), converse(common), converse(generic)) + different


@check(
    "van de Geijn et al. 2025, uniform RoPE, with the span of a turn read as G tokens",
    UniformRope,
    tolerance=1e-11,
)
def eq_uniform_rope(rng):
    m, G = count(rng, 1, 3), count(rng, 3, 9)
    q, k = normal(rng, 1, 1, 2, 2 * m), normal(rng, 1, 1, 2, 2 * m)
    encoding = create_encoding("uniform-rope", head_dim=2 * m, heads=1, axes=1, grid=(G,))
    delta = count(rng, 1, G - 1)
    turn = textbook.rotation_matrix(torch.full((m,), 2 * math.pi * delta / G, dtype=torch.float64))
    slow = (q[0, 0, 0] @ turn @ k[0, 0, 1]) / math.sqrt(2 * m)
    here, there, other = (
        encoding.scores(q, k, torch.tensor([[0.0], [shift]]).double())[0, 0, 0, 1]
        for shift in (delta, delta - G, delta - G + 0.5)
    )
    return max(error(here, slow), error(there, slow), must_fail(error(other, slow), least=1e-6))


def _spherical(rng: Generator):
    """Spherical RoPE, queries, keys [3, d], positions [3, 2], angles [m, 2] per step along either axis."""
    m, grid = count(rng, 1, 3), (count(rng, 3, 5), count(rng, 6, 8))
    encoding = create_encoding("spherical-rope", head_dim=3 * m, heads=1, grid=grid)
    speed = 10000.0 ** (-torch.arange(m).double() / m)
    omega = speed[:, None] * 2 * math.pi / torch.tensor(grid).double()
    return encoding, normal(rng, 3, 3 * m), normal(rng, 3, 3 * m), uniform(rng, -4, 4, 3, 2), omega


def _tilt(angle: Tensor) -> Tensor:
    """T of all triplets: the last two channels of each turn by its angle, [3m, 3m]."""
    still = torch.eye(1).double()
    return torch.block_diag(*[torch.block_diag(still, textbook.rotation_matrix(a[None])) for a in angle])


def _yaw(angle: Tensor) -> Tensor:
    """Y of all triplets: the first two channels of each turn by its angle, [3m, 3m]."""
    still = torch.eye(1).double()
    return torch.block_diag(*[torch.block_diag(textbook.rotation_matrix(a[None]), still) for a in angle])


@check(
    "van de Geijn et al. 2025, spherical RoPE",
    SphericalRope,
    textbook.spherical_rope,
    textbook.plane_rotation,
    tolerance=1e-11,
)
def eq_spherical_rope(rng):
    encoding, q, k, p, omega = _spherical(rng)
    turns = [_yaw(omega[:, 1] * x) @ _tilt(omega[:, 0] * y) for y, x in p]
    slow = torch.stack([turn @ z for turn, z in zip(turns, q, strict=True)])
    moved, _ = encoding(q[None, None], k[None, None], p)
    y, x = p[0]
    swapped = _tilt(omega[:, 0] * y) @ _yaw(omega[:, 1] * x)
    batch = textbook.spherical_rope(q.expand(2, -1, -1), p, omega.T)
    different = must_fail(error(swapped, turns[0]), least=1e-6)
    return max(error(moved[0, 0], slow), error(batch, slow.expand(2, -1, -1))) + different


@check("ours; van de Geijn et al. 2025 for the question", SphericalRope, tolerance=1e-11)
def eq_spherical_shift(rng):
    """A common shift cancels along x; along y it is one rotation of all queries and keys."""
    encoding, q, k, p, omega = _spherical(rng)
    along_y, along_x = number(rng, 0.5, 2), number(rng, 0.5, 2)

    def scores(q, k, shift):
        moved = p + torch.tensor(shift, dtype=torch.float64)
        return encoding.scores(q[None, None], k[None, None], moved)[0, 0]

    fixed = _tilt(omega[:, 0] * along_y)
    at_home = scores(q, k, (0.0, 0.0))
    across, down = scores(q, k, (0.0, along_x)), scores(q, k, (along_y, 0.0))
    both = scores(q, k, (along_y, along_x))
    return max(
        error(across, at_home),
        error(down, scores(q @ fixed.T, k @ fixed.T, (0.0, 0.0))),
        error(both, down),
        must_fail(error(down, at_home), least=1e-6),
    )


@check("ours; the paper's discussion asks for more complex topographies", operators.torus_roll, tolerance=0.0)
def eq_torus(rng):
    h, w = count(rng, 2, 4), count(rng, 5, 7)
    p = whole(rng, -9, 9, 4, 2)
    q = normal(rng, 3, 4, h * w)
    slow = torch.stack(
        [q[:, t] @ torch.kron(shift_power(h, p[t, 0]), shift_power(w, p[t, 1])).T for t in range(4)], 1
    )
    sheets = torch.roll(q[:, 0].unflatten(-1, (h, w)), (-int(p[0, 0]), -int(p[0, 1])), (-2, -1)).flatten(-2)
    found = operators.torus_roll(q, p, (h, w))
    each = operators.torus_roll(q, torch.stack((p, p + 1, p)), (h, w))  # positions that differ by image
    return max(error(found, slow), error(found[:, 0], sheets), error(each[::2], slow[::2]))


@check("ours", operators.torus_roll, tolerance=1e-11)
def eq_torus_score(rng):
    h, w, p = count(rng, 2, 4), count(rng, 5, 6), _grid(rng)
    q, k = normal(rng, len(p), h * w), normal(rng, len(p), h * w)
    scores = operators.torus_roll(q, p, (h, w)) @ operators.torus_roll(k, p, (h, w)).T
    slow = torch.empty_like(scores)
    for i in range(len(p)):
        for j in range(len(p)):
            back = (p[i] - p[j]).tolist()
            slow[i, j] = q[i] @ torch.roll(k[j].view(h, w), back, (0, 1)).flatten()
    return error(scores, slow)


@check("ours", operators.torus_roll, tolerance=0.0)
def eq_torus_complete(rng):
    h, w, p = count(rng, 2, 5), count(rng, 6, 8), _grid(rng)
    f, q = normal(rng, h, w), torch.zeros(len(p), h * w).double()
    q[:, 0] = 1
    k = f.flatten().expand(len(p), -1)
    scores = operators.torus_roll(q, p, (h, w)) @ operators.torus_roll(k, p, (h, w)).T
    delta = p - p[:, None]
    return error(scores, f[delta[..., 0] % h, delta[..., 1] % w])
