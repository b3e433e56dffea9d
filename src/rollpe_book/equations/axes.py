"""Images have two axes: axial, mixed, torus and Lie encodings.

Sources: the paper's App. D; Heo et al. 2024 (axial and mixed RoPE); Ostmeier et al. 2024 (LieRE); Liu et
al. 2025 (which generators make it relative); van de Geijn et al. 2025 (uniform and spherical RoPE, the
"sister paper"); the statements on what can be expressed are ours.
"""

import functools
import itertools
import math

import torch
from torch import Tensor

from rollpe import operators, textbook
from rollpe.encodings import create_encoding, scale_positions
from rollpe.encodings.rotary import SphericalRope, UniformRope
from rollpe_book.equations.cases import Draw, entrywise, error, eye, must_fail, must_hold, shift_power
from rollpe_book.equations.registry import check


def _grid(rng: Draw) -> Tensor:
    """Positions [N, 2] of all tokens of a non-square grid."""
    rows = rng.count(2, 3)
    columns = rows + rng.count(1, 2)
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns))


def _heads(rng: Draw):
    """A head's width, the ring width on each of two axes, and the size of a sub-vector."""
    size = rng.count(3, 6)
    return 2 * size + rng.count(0, 1), rng.count(2, size), size


@check(
    "paper App. D: each coordinate affects a different sub-vector",
    operators.axial_roll,
    operators.axis_slices,
    tolerance=0.0,
)
def eq_axial_roll(rng):
    for full in (True, False):
        head_dim, n, size = _heads(rng)
        n, width = (size, None) if full else (n, n)
        grid = _grid(rng) - 1
        p = torch.stack((grid, grid.flip(0)))  # two images whose tokens come in different orders
        q = rng.normal(2, len(grid), head_dim)
        slow = torch.empty_like(q)
        for image, t in itertools.product((0, 1), range(len(grid))):
            y, x = (torch.block_diag(shift_power(n, steps), eye(size - n)) for steps in p[image, t])
            slow[image, t] = torch.block_diag(y, x, eye(head_dim - 2 * size)) @ q[image, t]
        yield error(operators.axial_roll(q, p, width), slow)
        yield error(operators.axial_roll(q, grid, width)[0], slow[0])


@check("ours; App. B on two axes", operators.axial_roll)
def eq_axial_score(rng):
    head_dim, n, size = _heads(rng)
    p = _grid(rng)
    q, k = rng.normal(len(p), head_dim), rng.normal(len(p), head_dim)
    rings = slice(0, n), slice(size, size + n)  # the rest of a head does not move
    still = torch.ones(head_dim, dtype=torch.bool)
    still[rings[0]] = still[rings[1]] = False

    def moving(i, j):
        back = (p[i] - p[j]).tolist()
        return sum(q[i, rings[a]] @ torch.roll(k[j, rings[a]], back[a]) for a in (0, 1))

    slow = entrywise(moving, len(p), len(p)) + q[:, still] @ k[:, still].T
    yield error(operators.axial_roll(q, p, n) @ operators.axial_roll(k, p, n).T, slow)


@check("ours", operators.axial_roll)
def eq_axial_additive(rng):
    """Opposite corners of a rectangle of offsets add up to the same."""
    head_dim, n, _ = _heads(rng)
    q, k = rng.normal(head_dim), rng.normal(head_dim)
    a, b = rng.whole(-9, 9, 2), rng.whole(-9, 9, 2)
    offsets = torch.cartesian_prod(a, b)  # (a, b), (a, b'), (a', b), (a', b')
    c = operators.axial_roll(k.expand(4, -1), offsets, n) @ q
    yield error(c[0] - c[2], c[1] - c[3])


@check("ours; App. D on a grid", operators.torus_roll, tolerance=0.0)
def eq_grid_offsets(rng):
    h, w = rng.count(2, 4), rng.count(5, 6)
    offsets = torch.cartesian_prod(torch.arange(1 - h, h), torch.arange(1 - w, w))
    for lack in (0, 1):  # one channel too few on the second axis makes its extreme offsets agree
        sheet = (2 * h - 1, 2 * w - 1 - lack)
        x = torch.arange(math.prod(sheet)).expand(len(offsets), -1)
        distinct = len(operators.torus_roll(x, offsets, sheet).unique(dim=0))
        yield error(distinct, math.prod(sheet))
        yield must_hold((distinct == len(offsets)) == (not lack))


@check("ours; how encodings of real positions meet another resolution", scale_positions)
def eq_resolution(rng):
    built, finer = (rng.count(2, 4), rng.count(5, 7)), (rng.count(2, 3), rng.count(4, 5))
    shown = tuple(G * r for G, r in zip(built, finer, strict=True))  # every patch cut into r_y × r_x
    fine = torch.cartesian_prod(*(torch.arange(G).double() for G in shown))
    coarse = torch.cartesian_prod(*(torch.arange(G).double() for G in built))
    positions = scale_positions(fine, shown, built).unflatten(0, shown)
    pieces = positions.unflatten(1, (built[1], finer[1])).unflatten(0, (built[0], finer[0]))
    middles = pieces.mean((1, 3)).flatten(0, 1)  # the pieces of a patch surround its old position
    yield error(middles, coarse)
    for axis in (0, 1):  # evenly: 1/r along an axis, nothing across it
        step = positions.diff(dim=axis)
        yield error(step, (eye(2)[axis] / finer[axis]).expand_as(step))
    yield error(scale_positions(coarse, built, built), coarse)


@check("ours; the sister paper gives the class token no position", operators.axial_roll, tolerance=0.0)
def eq_class_token(rng):
    head_dim, n, _ = _heads(rng)
    p = _grid(rng)
    q, k = rng.normal(head_dim), rng.normal(len(p), head_dim)
    rolled = operators.axial_roll(k, p, n)
    at_zero = operators.axial_roll(q.expand(1, -1), torch.zeros(1, 2, dtype=torch.int64), n)[0]
    shifted = operators.axial_roll(k, p + 1, n)
    yield error(rolled @ q, rolled @ at_zero)
    yield must_fail(error(shifted @ q, rolled @ q), least=1e-3)


@check("Heo et al. 2024, axial RoPE", textbook.mixed_angles, operators.rotate_pairs)
def eq_axial_rope(rng):
    m, p = rng.count(2, 4), _grid(rng).double()
    theta, q = rng.uniform(0.1, 2, m), rng.normal(2, len(p), 4 * m)
    along = torch.zeros(2 * m, 2).double()
    along[:m, 0], along[m:, 1] = theta, theta
    moved = operators.rotate_pairs(q, textbook.mixed_angles(p, along))
    rows = textbook.rope(q[..., : 2 * m], p[:, 0], theta)
    columns = textbook.rope(q[..., 2 * m :], p[:, 1], theta)
    yield error(moved, torch.cat((rows, columns), -1))


@check("Heo et al. 2024, mixed RoPE", textbook.mixed_angles, textbook.rotation_matrix)
def eq_mixed_rope(rng):
    omega, p = rng.normal(rng.count(3, 5), 2), rng.uniform(-9, 9, 2, 2)
    angles = textbook.mixed_angles(p, omega)
    slow = entrywise(lambda t, w: p[t, 0] * omega[w, 0] + p[t, 1] * omega[w, 1], 2, len(omega))
    R = [textbook.rotation_matrix(row) for row in angles]
    between = textbook.rotation_matrix(textbook.mixed_angles(p[1:] - p[:1], omega)[0])
    yield error(angles, slow)
    yield error(R[0].T @ R[1], between)


@check(
    "Ostmeier et al. 2024 (LieRE), cited for the paper's Theorem 1", textbook.lie_rotation, tolerance=1e-10
)
def eq_lie(rng):
    n, p = rng.count(2, 6), rng.uniform(-2, 2, 3, 2)
    A = torch.stack((rng.skew(n), rng.skew(n)))
    R = textbook.lie_rotation(p, A)
    yield error(R.mT @ R, eye(n).expand(3, n, n))
    for t in range(3):
        V, omega = operators.rotation_form(p[t, 0] * A[0] + p[t, 1] * A[1])
        turned = torch.block_diag(textbook.rotation_matrix(omega), eye(n % 2))
        yield error(R[t], V @ turned @ V.T)


@check("Liu et al. 2025; van de Geijn et al. 2025 for the question", textbook.lie_rotation, tolerance=1e-10)
def eq_lie_relative(rng):
    n, p = 2 * rng.count(2, 3), rng.uniform(0.5, 1.5, 2, 2)
    p[1] = p[0] + torch.tensor([1.0, -1.0])
    V = rng.orthogonal(n)
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).double()
    common = torch.stack([V @ torch.kron(torch.diag(rng.normal(n // 2)), turn) @ V.T for _ in range(2)])
    generic = torch.stack((rng.skew(n), rng.skew(n)))
    nearly = common + 1e-3 * generic
    weight, origin = rng.normal(n, n), torch.zeros(2).double()

    def residual(A):
        R, between = textbook.lie_rotation(p, A), textbook.lie_rotation(p[1:] - p[:1], A)[0]
        return error(R[0].T @ R[1], between)

    def order(A, steps):  # what the order of a step down and a step to the right changes
        down, right = textbook.lie_rotation(torch.diag(steps), A)
        return (weight * (down @ right - right @ down)).sum()

    def converse(A):  # a relative encoding changes nothing; to second order the change is the commutator
        curvature = torch.autograd.functional.hessian(functools.partial(order, A), origin)[0, 1]
        return error(curvature, (weight * (A[0] @ A[1] - A[1] @ A[0])).sum())

    yield residual(common)
    yield converse(common)
    yield converse(generic)
    yield must_fail(residual(generic), least=1e-2)
    yield must_fail(residual(nearly), least=1e-7)


@check("van de Geijn et al. 2025, uniform RoPE, with the span of a turn read as G tokens", UniformRope)
def eq_uniform_rope(rng):
    m, G = rng.count(1, 3), rng.count(3, 9)
    q, k = rng.normal(1, 1, 2, 2 * m), rng.normal(1, 1, 2, 2 * m)
    encoding = create_encoding("uniform-rope", head_dim=2 * m, heads=1, axes=1, grid=(G,))
    delta = rng.count(1, G - 1)
    turn = textbook.rotation_matrix(torch.full((m,), 2 * math.pi * delta / G, dtype=torch.float64))
    slow = (q[0, 0, 0] @ turn @ k[0, 0, 1]) / math.sqrt(2 * m)

    def score(shift):
        return encoding.scores(q, k, torch.tensor([[0.0], [shift]]).double())[0, 0, 0, 1]

    yield error(score(delta), slow)
    yield error(score(delta - G), slow)
    yield must_fail(error(score(delta - G + 0.5), slow), least=1e-6)


def _spherical(rng: Draw):
    """Spherical RoPE, queries, keys [3, d], positions [3, 2], angles [m, 2] per step along either axis."""
    m, grid = rng.count(1, 3), (rng.count(3, 5), rng.count(6, 8))
    encoding = create_encoding("spherical-rope", head_dim=3 * m, heads=1, grid=grid)
    speed = 10000.0 ** (-torch.arange(m).double() / m)
    omega = speed[:, None] * 2 * math.pi / torch.tensor(grid).double()
    return encoding, rng.normal(3, 3 * m), rng.normal(3, 3 * m), rng.uniform(-4, 4, 3, 2), omega


def _tilt(angle: Tensor) -> Tensor:
    """T of all triplets: the last two channels of each turn by its angle, [3m, 3m]."""
    return torch.block_diag(*[torch.block_diag(eye(1), textbook.rotation_matrix(a[None])) for a in angle])


def _yaw(angle: Tensor) -> Tensor:
    """Y of all triplets: the first two channels of each turn by its angle, [3m, 3m]."""
    return torch.block_diag(*[torch.block_diag(textbook.rotation_matrix(a[None]), eye(1)) for a in angle])


@check(
    "van de Geijn et al. 2025, spherical RoPE",
    SphericalRope,
    textbook.spherical_rope,
    textbook.plane_rotation,
)
def eq_spherical_rope(rng):
    encoding, q, k, p, omega = _spherical(rng)
    turns = [_yaw(omega[:, 1] * x) @ _tilt(omega[:, 0] * y) for y, x in p]
    slow = torch.stack([turn @ z for turn, z in zip(turns, q, strict=True)])
    moved, _ = encoding(q[None, None], k[None, None], p)
    yield error(moved[0, 0], slow)
    batch = textbook.spherical_rope(q.expand(2, -1, -1), p, omega.T)
    yield error(batch, slow.expand(2, -1, -1))
    y, x = p[0]
    swapped = _tilt(omega[:, 0] * y) @ _yaw(omega[:, 1] * x)
    yield must_fail(error(swapped, turns[0]), least=1e-6)


@check("ours; van de Geijn et al. 2025 for the question", SphericalRope)
def eq_spherical_shift(rng):
    """A common shift cancels along x; along y it is one rotation of all queries and keys."""
    encoding, q, k, p, omega = _spherical(rng)
    along_y, along_x = rng.number(0.5, 2), rng.number(0.5, 2)

    def scores(q, k, shift):
        moved = p + torch.tensor(shift, dtype=torch.float64)
        return encoding.scores(q[None, None], k[None, None], moved)[0, 0]

    fixed = _tilt(omega[:, 0] * along_y)
    at_home = scores(q, k, (0.0, 0.0))
    across, down = scores(q, k, (0.0, along_x)), scores(q, k, (along_y, 0.0))
    yield error(across, at_home)
    yield error(down, scores(q @ fixed.T, k @ fixed.T, (0.0, 0.0)))
    yield error(scores(q, k, (along_y, along_x)), down)
    yield must_fail(error(down, at_home), least=1e-6)


@check("ours; the paper's discussion asks for more complex topographies", operators.torus_roll, tolerance=0.0)
def eq_torus(rng):
    h, w = rng.count(2, 4), rng.count(5, 7)
    p = rng.whole(-9, 9, 4, 2)
    q = rng.normal(3, 4, h * w)
    S = [torch.kron(shift_power(h, y), shift_power(w, x)) for y, x in p]
    slow = torch.stack([q[:, t] @ S[t].T for t in range(4)], 1)
    sheets = torch.roll(q[:, 0].unflatten(-1, (h, w)), (-int(p[0, 0]), -int(p[0, 1])), (-2, -1)).flatten(-2)
    found = operators.torus_roll(q, p, (h, w))
    yield error(found, slow)
    yield error(found[:, 0], sheets)
    each = operators.torus_roll(q, torch.stack((p, p + 1, p)), (h, w))  # positions that differ by image
    yield error(each[::2], slow[::2])


@check("ours", operators.torus_roll)
def eq_torus_score(rng):
    h, w, p = rng.count(2, 4), rng.count(5, 6), _grid(rng)
    q, k = rng.normal(len(p), h * w), rng.normal(len(p), h * w)
    scores = operators.torus_roll(q, p, (h, w)) @ operators.torus_roll(k, p, (h, w)).T

    def score(i, j):
        return q[i] @ torch.roll(k[j].view(h, w), (p[i] - p[j]).tolist(), (0, 1)).flatten()

    yield error(scores, entrywise(score, len(p), len(p)))


@check("ours", operators.torus_roll, tolerance=0.0)
def eq_torus_complete(rng):
    h, w, p = rng.count(2, 5), rng.count(6, 8), _grid(rng)
    f = rng.normal(h, w)
    q, k = (x.expand(len(p), -1) for x in (eye(h * w)[0], f.flatten()))
    scores = operators.torus_roll(q, p, (h, w)) @ operators.torus_roll(k, p, (h, w)).T
    delta = p - p[:, None]
    yield error(scores, f[delta[..., 0] % h, delta[..., 1] % w])
