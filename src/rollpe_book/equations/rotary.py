"""Rotation instead of addition, its two layouts, and what it does not do.

Sources: the introductions order, circles and equivariance (after Su et al. 2021), corrected where they slip.
"""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from rollpe import operators, textbook
from rollpe_book.equations.cases import Draw, entrywise, error, excess, must_fail, must_hold
from rollpe_book.equations.registry import check


def _rotary_case(rng: Draw, N: int = 4):
    """Pairs m, frequencies [m], positions [N] and a batch of q, k [2, N, 2m]."""
    m = rng.count(2, 6)
    theta, p = rng.uniform(0.1, 2, m), rng.uniform(-9, 9, N)
    return m, theta, p, rng.normal(2, N, 2 * m), rng.normal(2, N, 2 * m)


def _as_complex(x: Tensor) -> Tensor:
    """Interleaved pairs [..., 2m] as complex numbers [..., m]."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())


def rotated(x: Tensor, p: Tensor, frequencies: Tensor) -> Tensor:
    """RoPE by complex multiplication, interleaved: x [..., N, 2m], p [N], frequencies [m]."""
    turned = _as_complex(x) * torch.exp(1j * p.double()[:, None] * frequencies)
    return torch.view_as_real(turned).flatten(-2)


@check("all three introductions, rotary pairs", textbook.rope, operators.rotate_pairs, tolerance=1e-12)
def eq_rope_pair(rng):
    m, theta, p, x, _ = _rotary_case(rng)
    slow = torch.empty_like(x).unflatten(-1, (m, 2))
    for t, i in itertools.product(range(len(p)), range(m)):
        c, s = math.cos(p[t] * theta[i]), math.sin(p[t] * theta[i])
        R = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
        slow[:, t, i] = x[:, t, 2 * i : 2 * i + 2] @ R.T
    slow = slow.flatten(-2)
    turned = operators.rotate_pairs(x[:, None], p[:, None] * theta)[:, 0]
    yield error(textbook.rope(x, p, theta), slow)
    yield error(turned, slow)


@check("all three introductions", textbook.rope_frequencies, tolerance=1e-12)
def eq_rope_frequencies(rng):
    d = 2 * rng.count(1, 32)
    exponents = torch.linspace(0, -2 * (d / 2 - 1) / d, d // 2, dtype=torch.float64)
    yield error(textbook.rope_frequencies(d), torch.exp(exponents * math.log(10000)))


@check("equivariance, complex form", textbook.rope, tolerance=1e-12)
def eq_rope_complex(rng):
    _, theta, p, x, _ = _rotary_case(rng)
    yield error(textbook.rope(x, p, theta), rotated(x, p, theta))


@check("equivariance, block-diagonal form", textbook.rotation_matrix, textbook.rope)
def eq_rope_block(rng):
    _, theta, p, x, _ = _rotary_case(rng)
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    block = torch.matrix_exp(p[0] * torch.kron(torch.diag(theta), turn))
    yield error(textbook.rotation_matrix(p[0] * theta), block)
    yield error(textbook.rope(x[:, :1], p[:1], theta), x[:, :1] @ block.T)


@check(
    "order: its text interleaves pairs, its code splits halves",
    textbook.layout_order,
    textbook.rope,
    tolerance=1e-12,
)
def eq_rope_layouts(rng):
    m, theta, p, x, _ = _rotary_case(rng)
    order = textbook.layout_order(2 * m)
    turned = _as_complex(x) * torch.exp(1j * p[:, None] * theta)
    half = torch.cat((turned.real, turned.imag), dim=-1)
    yield error(order, [*range(0, 2 * m, 2), *range(1, 2 * m, 2)])
    yield error(textbook.rope(x[..., order], p, theta, "half"), half)


@check("circles and equivariance, properties of rotations", textbook.rotation_matrix, tolerance=1e-12)
def eq_rope_group(rng):
    _, theta, p, _, _ = _rotary_case(rng)
    (m, n, *_), R = p, textbook.rotation_matrix
    yield error(R(m * theta) @ R(n * theta), R((m + n) * theta))
    yield error(R(m * theta).T, R(-m * theta))


def _relative_scores(q: Tensor, k: Tensor, p: Tensor, theta: Tensor) -> Tensor:
    """q_mᵀ R(p_n − p_m) k_n of all tokens, [2, N, N]."""

    def score(m, n):
        R = textbook.rotation_matrix((p[n] - p[m]) * theta)
        return torch.einsum("bi,ij,bj->b", q[:, m], R, k[:, n])

    return entrywise(score, len(p), len(p))


@check("all three introductions, relative property", textbook.rope, textbook.rotation_matrix)
def eq_rope_relative(rng):
    _, theta, p, q, k = _rotary_case(rng)
    scores = textbook.rope(q, p, theta) @ textbook.rope(k, p, theta).mT
    yield error(scores, _relative_scores(q, k, p, theta))


@check("circles and equivariance, norm preservation", textbook.rope, tolerance=1e-12)
def eq_rope_norm(rng):
    _, theta, p, x, _ = _rotary_case(rng)
    for layout in ("interleaved", "half"):
        yield error(textbook.rope(x, p, theta, layout).norm(dim=-1), x.norm(dim=-1))


@check("equivariance, corrected: it drops the sine", textbook.rope_score)
def eq_rope_score(rng):
    _, theta, p, q, k = _rotary_case(rng)
    R = textbook.rotation_matrix
    turned = ((q[:, 0] @ R(p[0] * theta).T) * (k[:, 0] @ R(p[1] * theta).T)).sum(-1)
    found = textbook.rope_score(q[:, 0], k[:, 0], p[1] - p[0], theta)
    yield error(found, turned)
    yield error(textbook.rope_score(q, k, 0.0, theta), (q * k).sum(-1))


@check("equivariance, as printed: Re[⟨q, k⟩ e^{iφ}] = ⟨q, k⟩ cos φ", textbook.rope)
def eq_rope_score_printed(rng):
    theta, p = rng.uniform(0.3, 0.9, 1), torch.tensor([0.0, 1.7], dtype=torch.float64)
    q, k = rng.normal(2), rng.normal(2)
    k = k + (1 - q.dot(k) / q.dot(q)) * q  # neither parallel nor orthogonal to q
    k = k + torch.stack((-q[1], q[0])) * torch.sign(q[0] * k[1] - q[1] * k[0])
    score = textbook.rope(q.expand(2, 2), p, theta)[0] @ textbook.rope(k.expand(2, 2), p, theta)[1]
    angle = theta[0] * (p[1] - p[0])
    missing = -(q[0] * k[1] - q[1] * k[0]) * torch.sin(angle)
    printed = q.dot(k) * torch.cos(angle)
    yield error(score - printed, missing)
    yield must_fail(error(score, printed) / float(q.dot(q)), least=0.1)


@check("equivariance, sum of cosines", textbook.similarity_kernel)
def eq_rope_kernel(rng):
    m, theta, p, _, _ = _rotary_case(rng, 2)
    phase = rng.uniform(0, 6, m)
    q = torch.stack((phase.cos(), phase.sin()), -1).flatten() * rng.number(0.5, 2)
    here, there = textbook.rope(q.expand(2, -1), p, theta)
    found = textbook.similarity_kernel((p[1] - p[0]).expand(2, 3), theta)
    yield error(found, (here @ there / q.dot(q)).expand(2, 3))


@check(
    "equivariance, corrected: it says that the sum goes to 0",
    textbook.similarity_kernel,
    tolerance=0.0,
    cases=4,
)
def eq_almost_periodic(rng):
    m, M = rng.count(1, 3), rng.count(8, 16)
    theta = rng.uniform(0.01, 2, m)
    delta = torch.arange(1, M**m + 1)
    each = torch.stack([textbook.similarity_kernel(delta, theta[i : i + 1]) for i in range(m)])
    yield excess(math.cos(2 * math.pi / M), each.amin(0).max())
    kernel = textbook.similarity_kernel(torch.tensor([1000, 169_646]), textbook.rope_frequencies(8))
    yield must_hold(float(kernel[1]) > 0.9995 and float(kernel[0]) < 0.9)


@check(
    "circles, corrected: attention does not shrink with distance by itself", textbook.rope, tolerance=1e-10
)
def eq_any_peak(rng):
    m, theta, _, q, _ = _rotary_case(rng, 1)
    q, r, N = q[0, 0], rng.count(0, 29), 30
    key = textbook.rotation_matrix(-r * theta) @ q
    p = torch.arange(N)
    turned_k = textbook.rope(key.expand(N, -1), p, theta)
    score = turned_k @ textbook.rope(q.expand(1, -1), p[:1], theta)[0]
    waves = (q.unflatten(0, (m, 2)).square().sum(1) * torch.cos(theta * (p[:, None] - r))).sum(1)
    yield error(score, waves)
    yield excess(score, q.dot(q))
    yield error(score[r], q.dot(q))


@check(
    "RoFormer (Su et al. 2021), Sec. 3.4.3, cited in circles and equivariance",
    textbook.decay_bound,
    tolerance=1e-10,
)
def eq_decay_bound(rng):
    m, theta, _, q, k = _rotary_case(rng, 1)
    delta = rng.whole(0, 400, 2, 3)
    h = _as_complex(q[0, 0]).conj() * _as_complex(k[0, 0])
    steps = torch.diff(torch.cat((h, torch.zeros(1)))).abs().max()
    value = (h * torch.exp(1j * delta.double()[..., None] * theta)).sum(-1).abs()
    bound = textbook.decay_bound(delta, theta)
    yield excess(value, steps * bound)

    def partial_sum(a, j):
        return abs(sum(complex(math.cos(a * t), math.sin(a * t)) for t in theta[: j + 1].tolist()))

    sums = [[partial_sum(a, j) for j in range(m)] for a in delta.flatten().tolist()]
    yield error(bound.flatten(), torch.tensor(sums, dtype=torch.float64).sum(1))
    ladder = textbook.decay_bound(torch.arange(200), textbook.rope_frequencies(128))
    yield must_hold(bool((torch.diff(ladder) > 0.1).any()))


@check("bloc97 2023, NTK-aware scaling", textbook.ntk_base, textbook.rope_frequencies, tolerance=1e-12)
def eq_ntk(rng):
    d, s, base = 2 * rng.count(2, 32), rng.number(1, 9), rng.number(5, 20000)
    found = textbook.rope_frequencies(d, textbook.ntk_base(base, s, d))
    slower = torch.tensor([s ** (-i / (d / 2 - 1)) for i in range(d // 2)], dtype=torch.float64)
    yield error(found, textbook.rope_frequencies(d, base) * slower)


@check(
    "YaRN (Peng et al. 2023) with the ramp of its code",
    textbook.yarn_frequencies,
    textbook.yarn_range,
    textbook.yarn_temperature,
    tolerance=1e-12,
)
def eq_yarn(rng):
    d, s, N, base = 2 * rng.count(8, 64), rng.number(1, 9), rng.count(300, 9000), rng.number(500, 20000)
    fast, slow = (d * math.log(N / (turns * math.pi)) / (2 * math.log(base)) for turns in (64, 2))
    a, b = math.floor(fast), math.ceil(slow)
    expected = []
    for i in range(d // 2):
        theta = base ** (-2 * i / d)
        kept = 1 if i <= a else 0 if i >= b else (b - i) / (b - a)
        expected.append(kept * theta + (1 - kept) * theta / s)
    found = textbook.yarn_frequencies(d, s, N, base)
    yield error(found, expected)
    yield error(textbook.yarn_temperature(s), 0.1 * math.log(s) + 1)


@check("Llama 3.1, code of its release", textbook.llama3_frequencies, tolerance=1e-12)
def eq_llama3(rng):
    d, s, N, base = 2 * rng.count(8, 64), rng.number(1, 9), rng.count(300, 9000), rng.number(500, 20000)
    expected = []
    for i in range(d // 2):
        theta = base ** (-2 * i / d)
        wavelength = 2 * math.pi / theta
        if wavelength < N / 4:
            expected.append(theta)
        elif wavelength > N:
            expected.append(theta / s)
        else:
            kept = (N / wavelength - 1) / 3
            expected.append(kept * theta + (1 - kept) * theta / s)
    yield error(textbook.llama3_frequencies(d, s, N, base), expected)


@check("emozilla 2023, dynamic NTK-aware scaling", textbook.dynamic_frequencies, tolerance=1e-12)
def eq_dynamic(rng):
    d, s, N, base = 2 * rng.count(2, 32), rng.number(1, 9), rng.count(2, 9000), rng.number(5, 20000)
    for L in (rng.count(1, N), N, N + rng.count(1, 9000)):
        stretch = max(1.0, s * L / N - (s - 1))
        slower = torch.tensor([stretch ** (-i / (d / 2 - 1)) for i in range(d // 2)], dtype=torch.float64)
        found = textbook.dynamic_frequencies(d, s, L, N, base)
        yield error(found, textbook.rope_frequencies(d, base) * slower)


@check(
    "LongRoPE (Ding et al. 2024) with the switch and the factor of Phi-3",
    textbook.longrope_frequencies,
    textbook.longrope_temperature,
    tolerance=1e-12,
)
def eq_longrope(rng):
    d, s, N, base = 2 * rng.count(1, 32), rng.number(1, 9), rng.count(2, 9000), rng.number(5, 20000)
    short, long = rng.uniform(1, 2, d // 2).tolist(), rng.uniform(1, 60, d // 2).tolist()
    for L, divisors in ((N, short), (N + 1, long)):
        expected = [base ** (-2 * i / d) / divisor for i, divisor in enumerate(divisors)]
        yield error(textbook.longrope_frequencies(d, L, N, short, long, base), expected)
    yield error(textbook.longrope_temperature(s, N) ** 2 - 1, math.log(s) / math.log(N))


@check("xPos (Sun et al. 2022)", textbook.xpos, textbook.xpos_scales)
def eq_xpos(rng):
    m, theta, p, q, k = _rotary_case(rng)
    zeta = textbook.xpos_scales(2 * m)
    stated = torch.tensor([(i / m + 0.4) / 1.4 for i in range(m)], dtype=torch.float64)
    yield error(zeta, stated)
    moved_q = textbook.xpos(q, p, theta, zeta, 512.0)
    moved_k = textbook.xpos(k, p, theta, zeta, 512.0, keys=True)
    delta = p - p[:, None]
    each = _as_complex(q)[:, :, None].conj() * _as_complex(k)[:, None]
    waves = each * torch.exp(1j * delta[..., None] * theta) * stated ** (-delta[..., None] / 512)
    yield error(moved_q @ moved_k.mT, waves.sum(-1).real)


@check("equivariance, linear attention", textbook.linear_attention, textbook.elu_feature)
def eq_linear_attention(rng):
    N, d, m = rng.count(3, 6), rng.count(2, 5), rng.count(6, 8)
    q, k, v = rng.normal(2, N, d), rng.normal(2, N, d), rng.normal(2, N, m)
    weight = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    slow = (weight / weight.sum(-1, keepdim=True)) @ v
    yield error(textbook.linear_attention(q, k, v), slow)
    yield error(textbook.elu_feature(q), F.elu(q) + 1)


@check("equivariance, corrected; RoFormer Eq. 19", textbook.rotary_linear_attention, tolerance=1e-10)
def eq_linear_rope(rng):
    _, theta, p, q, k = _rotary_case(rng)
    v = rng.normal(2, len(p), 3)
    f, g = F.elu(q) + 1, F.elu(k) + 1
    weights = _relative_scores(f, g, p, theta)
    total = entrywise(lambda m: (f[:, m : m + 1] * g).sum((1, 2)), len(p))
    slow = (weights[..., None] * v[:, None]).sum(2) / total[..., None]
    for shift in (0, rng.number(-9, 9)):
        yield error(textbook.rotary_linear_attention(q, k, v, p + shift, theta), slow)


@check("equivariance, as printed: φ(q, m) = φ(R_m q)", textbook.elu_feature, textbook.rope, tolerance=0.0)
def eq_linear_rope_printed(rng):
    _, theta, p, q, k = _rotary_case(rng)

    def scores(s):
        f, g = (textbook.elu_feature(textbook.rope(x, p + s, theta)) for x in (q, k))
        return f @ g.mT

    yield must_fail(error(scores(1.0), scores(0.0)), least=1e-2)


@check("circles and equivariance, key–value cache with RoPE", textbook.decode, textbook.rope)
def eq_cache_rope(rng):
    _, theta, _, q, k = _rotary_case(rng, 5)
    q, k, v, p = q[0], k[0], rng.normal(5, 3), torch.arange(5)
    cached = textbook.decode(textbook.rope(q, p, theta), textbook.rope(k, p, theta), v)

    def score(t, j):
        return q[t] @ textbook.rotation_matrix((j - t) * theta) @ k[j] / math.sqrt(q.shape[1])

    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    scores = entrywise(score, 5, 5).masked_fill(later, -math.inf)
    yield error(cached, torch.softmax(scores, -1) @ v)
