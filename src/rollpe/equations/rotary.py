"""Page 04-rotary: rotation instead of addition, its two layouts, and what it does not do.

Sources: the introductions order, circles and equivariance (after Su et al. 2021), corrected where they slip.
"""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from rollpe import operators, textbook
from rollpe.equations.cases import count, error, excess, must_fail, must_hold, normal, number, uniform, whole
from rollpe.equations.registry import check

PAGE = "04-rotary"


def _rotary_case(rng: Generator, N: int = 4):
    """Pairs m, frequencies [m], positions [N] and a batch of q, k [2, N, 2m]."""
    m = count(rng, 2, 6)
    return (
        m,
        uniform(rng, 0.1, 2, m),
        uniform(rng, -9, 9, N),
        normal(rng, 2, N, 2 * m),
        normal(rng, 2, N, 2 * m),
    )


def _as_complex(x: Tensor) -> Tensor:
    """Interleaved pairs [..., 2m] as complex numbers [..., m]."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())


@check(
    "eq-rope-pair",
    page=PAGE,
    source="all three introductions, rotary pairs",
    title="RoPE turns each pair of channels by an angle that grows with position",
    tex=r"""\begin{bmatrix} x'_{2i} \\ x'_{2i+1} \end{bmatrix} =
\begin{bmatrix} \cos p\,\theta_i & -\sin p\,\theta_i \\ \sin p\,\theta_i & \cos p\,\theta_i \end{bmatrix}
\begin{bmatrix} x_{2i} \\ x_{2i+1} \end{bmatrix}""",
    implements=(textbook.rope, operators.rotate_pairs),
    tolerance=1e-12,
)
def eq_rope_pair(rng):
    m, theta, p, x, _ = _rotary_case(rng)
    slow = torch.empty_like(x)
    for t in range(len(p)):
        for i in range(m):
            c, s = math.cos(p[t] * theta[i]), math.sin(p[t] * theta[i])
            R = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
            slow[:, t, 2 * i : 2 * i + 2] = x[:, t, 2 * i : 2 * i + 2] @ R.T
    turned = operators.rotate_pairs(x[:, None], p[:, None] * theta)[:, 0]
    return max(error(textbook.rope(x, p, theta), slow), error(turned, slow))


@check(
    "eq-rope-frequencies",
    page=PAGE,
    source="all three introductions",
    title="RoPE's frequencies are those of the sinusoidal code",
    tex=r"\theta_i = 10000^{-2i/d}, \qquad i = 0, \dots, \tfrac{d}{2} - 1",
    implements=textbook.rope_frequencies,
    tolerance=1e-12,
)
def eq_rope_frequencies(rng):
    d = 2 * count(rng, 1, 32)
    exponents = torch.linspace(0, -2 * (d / 2 - 1) / d, d // 2, dtype=torch.float64)
    return error(textbook.rope_frequencies(d), torch.exp(exponents * math.log(10000)))


@check(
    "eq-rope-complex",
    page=PAGE,
    source="equivariance, complex form",
    title="The same as a product of complex numbers",
    tex=r"z_i = x_{2i} + \mathrm{i}\, x_{2i+1}, \qquad z_i \mapsto z_i \, e^{\mathrm{i} p \theta_i}",
    implements=textbook.rope,
    tolerance=1e-12,
)
def eq_rope_complex(rng):
    _, theta, p, x, _ = _rotary_case(rng)
    turned = _as_complex(x) * torch.exp(1j * p[:, None] * theta)
    return error(textbook.rope(x, p, theta), torch.view_as_real(turned).flatten(-2))


@check(
    "eq-rope-block",
    page=PAGE,
    source="equivariance, block-diagonal form",
    title="All pairs at once: a block-diagonal rotation",
    tex=(
        r"\begin{aligned} R_p &= \operatorname{diag}\bigl( R(p\,\theta_0), \dots, R(p\,\theta_{d/2-1}) "
        r"\bigr) \\ "
        r"&= \exp\!\left( p \bigoplus_i \begin{bmatrix} 0 & -\theta_i \\ \theta_i & 0 \end{bmatrix} "
        r"\right) \end{aligned}"
    ),
    implements=(textbook.rotation_matrix, textbook.rope),
    tolerance=1e-11,
)
def eq_rope_block(rng):
    _, theta, p, x, _ = _rotary_case(rng)
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    block = torch.matrix_exp(p[0] * torch.kron(torch.diag(theta), turn))
    moved = textbook.rope(x[:, :1], p[:1], theta)
    return max(error(textbook.rotation_matrix(p[0] * theta), block), error(moved, x[:, :1] @ block.T))


@check(
    "eq-rope-layouts",
    page=PAGE,
    source="order: its text interleaves pairs, its code splits halves",
    title="Both layouts are the same rotation, up to one permutation of the channels",
    tex=(
        r"\begin{gathered} R^{\text{half}}_p = \Pi R^{\text{interleaved}}_p \Pi^\top, \\ "
        r"\Pi x = (x_0, x_2, \dots,\; x_1, x_3, \dots) \end{gathered}"
    ),
    implements=(textbook.layout_order, textbook.rope),
    tolerance=1e-12,
)
def eq_rope_layouts(rng):
    m, theta, p, x, _ = _rotary_case(rng)
    order = textbook.layout_order(2 * m)
    evens_odds = torch.tensor([*range(0, 2 * m, 2), *range(1, 2 * m, 2)])
    turned = _as_complex(x) * torch.exp(1j * p[:, None] * theta)
    half = torch.cat((turned.real, turned.imag), dim=-1)
    return max(error(order, evens_odds), error(textbook.rope(x[..., order], p, theta, "half"), half))


@check(
    "eq-rope-group",
    page=PAGE,
    source="circles and equivariance, properties of rotations",
    title="Rotations add up, and the transpose turns back",
    tex=r"R_m R_n = R_{m+n}, \qquad R_m^\top = R_{-m}",
    implements=textbook.rotation_matrix,
    tolerance=1e-12,
)
def eq_rope_group(rng):
    _, theta, p, _, _ = _rotary_case(rng)
    R = textbook.rotation_matrix
    m, n = p[0], p[1]
    return max(error(R(m * theta) @ R(n * theta), R((m + n) * theta)), error(R(m * theta).T, R(-m * theta)))


@check(
    "eq-rope-relative",
    page=PAGE,
    source="all three introductions, relative property",
    title="The score of rotated vectors depends on the offset alone",
    tex=r"(R_m q)^\top (R_n k) = q^\top R_{n-m} \, k",
    implements=(textbook.rope, textbook.rotation_matrix),
    tolerance=1e-11,
)
def eq_rope_relative(rng):
    _, theta, p, q, k = _rotary_case(rng)
    scores = textbook.rope(q, p, theta) @ textbook.rope(k, p, theta).mT
    slow = torch.empty_like(scores)
    for m in range(len(p)):
        for n in range(len(p)):
            R = textbook.rotation_matrix((p[n] - p[m]) * theta)
            slow[:, m, n] = torch.einsum("bi,ij,bj->b", q[:, m], R, k[:, n])
    return error(scores, slow)


@check(
    "eq-rope-norm",
    page=PAGE,
    source="circles and equivariance, norm preservation",
    title="Rotation keeps lengths",
    tex=r"\|R_p x\| = \|x\|",
    implements=textbook.rope,
    tolerance=1e-12,
)
def eq_rope_norm(rng):
    _, theta, p, x, _ = _rotary_case(rng)
    both = [textbook.rope(x, p, theta, layout).norm(dim=-1) for layout in ("interleaved", "half")]
    return max(error(norm, x.norm(dim=-1)) for norm in both)


@check(
    "eq-rope-score",
    page=PAGE,
    source="equivariance, corrected: it drops the sine",
    title="The score as waves of the offset: a cosine and a sine for each pair",
    tex=(
        r"\begin{aligned} & (R_m q)^\top (R_n k) = \operatorname{Re} \sum_i \bar q_i k_i \, "
        r"e^{\mathrm{i} \theta_i \Delta} \\ "
        r"& \quad = \sum_i \left( a_i \cos \theta_i \Delta - b_i \sin \theta_i \Delta \right), \\ "
        r"& \Delta = n - m, \qquad a_i + \mathrm{i} b_i = \bar q_i k_i \end{aligned}"
    ),
    implements=textbook.rope_score,
    tolerance=1e-11,
)
def eq_rope_score(rng):
    _, theta, p, q, k = _rotary_case(rng)
    R = textbook.rotation_matrix
    turned = ((q[:, 0] @ R(p[0] * theta).T) * (k[:, 0] @ R(p[1] * theta).T)).sum(-1)
    found = textbook.rope_score(q[:, 0], k[:, 0], p[1] - p[0], theta)
    return max(error(found, turned), error(textbook.rope_score(q, k, 0.0, theta), (q * k).sum(-1)))


@check(
    "eq-rope-score-printed",
    page=PAGE,
    source="equivariance, as printed: Re[⟨q, k⟩ e^{iφ}] = ⟨q, k⟩ cos φ",
    title="Without the sine the score is wrong, and blind to direction",
    tex=(
        r"\begin{aligned} & (R_m q)^\top (R_n k) - q^\top k \cos \theta \Delta \\ "
        r"& \quad = -(q_0 k_1 - q_1 k_0) \sin \theta \Delta \quad (d = 2) \end{aligned}"
    ),
    implements=textbook.rope,
    tolerance=1e-11,
)
def eq_rope_score_printed(rng):
    theta, p = uniform(rng, 0.3, 0.9, 1), torch.tensor([0.0, 1.7], dtype=torch.float64)
    q, k = normal(rng, 2), normal(rng, 2)
    k = k + (1 - q.dot(k) / q.dot(q)) * q  # neither parallel nor orthogonal to q
    k = k + torch.stack((-q[1], q[0])) * torch.sign(q[0] * k[1] - q[1] * k[0])
    score = textbook.rope(q.expand(2, 2), p, theta)[0] @ textbook.rope(k.expand(2, 2), p, theta)[1]
    angle = theta[0] * (p[1] - p[0])
    missing = -(q[0] * k[1] - q[1] * k[0]) * torch.sin(angle)
    printed = q.dot(k) * torch.cos(angle)
    return error(score - printed, missing) + must_fail(error(score, printed) / float(q.dot(q)), least=0.1)


@check(
    "eq-rope-kernel",
    page=PAGE,
    source="equivariance, sum of cosines",
    title="A query looking for itself: the kernel of RoPE",
    tex=(
        r"\begin{aligned} g(\Delta) &= \frac{(R_p q)^\top (R_{p+\Delta}\, q)}{\|q\|^2} \\ "
        r"&= \frac{2}{d} \sum_i \cos \theta_i \Delta \quad \text{if } |q_0| = |q_1| = \dots "
        r"\end{aligned}"
    ),
    implements=textbook.similarity_kernel,
    tolerance=1e-11,
)
def eq_rope_kernel(rng):
    m, theta, p, _, _ = _rotary_case(rng, 2)
    phase = uniform(rng, 0, 6, m)
    q = torch.stack((phase.cos(), phase.sin()), -1).flatten() * number(rng, 0.5, 2)
    here, there = textbook.rope(q.expand(2, -1), p, theta)
    found = textbook.similarity_kernel((p[1] - p[0]).expand(2, 3), theta)
    return error(found, (here @ there / q.dot(q)).expand(2, 3))


@check(
    "eq-almost-periodic",
    page=PAGE,
    source="equivariance, corrected: it says that the sum goes to 0",
    title="The kernel never dies out: it is almost periodic",
    tex=(
        r"\begin{gathered} \limsup_{\Delta \to \infty} g(\Delta) = 1, \\ "
        r"\max_{1 \le \Delta \le M^{d/2}} \; \min_i \cos \theta_i \Delta \;\ge\; \cos \tfrac{2\pi}{M} "
        r"\end{gathered}"
    ),
    implements=textbook.similarity_kernel,
    tolerance=0.0,
    cases=4,
)
def eq_almost_periodic(rng):
    m, M = count(rng, 1, 3), count(rng, 8, 16)
    theta = uniform(rng, 0.01, 2, m)
    delta = torch.arange(1, M**m + 1)
    each = torch.stack([textbook.similarity_kernel(delta, theta[i : i + 1]) for i in range(m)])
    kernel = textbook.similarity_kernel(torch.tensor([1000, 169_646]), textbook.rope_frequencies(8))
    back = must_hold(float(kernel[1]) > 0.9995 and float(kernel[0]) < 0.9)
    return max(excess(math.cos(2 * math.pi / M), each.amin(0).max()), back)


@check(
    "eq-any-peak",
    page=PAGE,
    source="circles, corrected: attention does not shrink with distance by itself",
    title="A key can ask to be read from any distance",
    tex=(
        r"\begin{aligned} & k = R_{-r}\, q \quad \Longrightarrow \quad (R_m q)^\top (R_n k) \\ "
        r"& \quad = \sum_i |q_i|^2 \cos \theta_i (\Delta - r) \le \|q\|^2 \end{aligned}"
    ),
    implements=textbook.rope,
    tolerance=1e-10,
)
def eq_any_peak(rng):
    m, theta, _, q, _ = _rotary_case(rng, 1)
    q, r, N = q[0, 0], count(rng, 0, 29), 30
    key = textbook.rotation_matrix(-r * theta) @ q
    p = torch.arange(N)
    turned_k = textbook.rope(key.expand(N, -1), p, theta)
    score = turned_k @ textbook.rope(q.expand(1, -1), p[:1], theta)[0]
    waves = (q.unflatten(0, (m, 2)).square().sum(1) * torch.cos(theta * (p[:, None] - r))).sum(1)
    return max(error(score, waves), excess(score, q.dot(q)), error(score[r], q.dot(q)))


@check(
    "eq-decay-bound",
    page=PAGE,
    source="RoFormer (Su et al. 2021), Sec. 3.4.3, cited in circles and equivariance",
    title="What was proved is an upper bound, and it is not monotone",
    tex=(
        r"\begin{aligned} & \Bigl| \sum_{i} h_i e^{\mathrm{i} \theta_i \Delta} \Bigr| \\ "
        r"& \quad \le \max_i |h_{i+1} - h_i| \sum_{j} \Bigl| \sum_{i \le j} e^{\mathrm{i} \theta_i "
        r"\Delta} \Bigr|, \\ "
        r"& h_{d/2} = 0 \end{aligned}"
    ),
    implements=textbook.decay_bound,
    tolerance=1e-10,
)
def eq_decay_bound(rng):
    m, theta, _, q, k = _rotary_case(rng, 1)
    delta = whole(rng, 0, 400, 2, 3)
    h = _as_complex(q[0, 0]).conj() * _as_complex(k[0, 0])
    steps = torch.diff(torch.cat((h, torch.zeros(1)))).abs().max()
    value = (h * torch.exp(1j * delta.double()[..., None] * theta)).sum(-1).abs()
    bound = textbook.decay_bound(delta, theta)
    sums = [
        [
            abs(sum(complex(math.cos(t * a), math.sin(t * a)) for t in theta[: j + 1].tolist()))
            for j in range(m)
        ]
        for a in delta.flatten().tolist()
    ]
    ladder = textbook.decay_bound(torch.arange(200), textbook.rope_frequencies(128))
    rises = must_hold(bool((torch.diff(ladder) > 0.1).any()))
    return max(
        excess(value, steps * bound),
        error(bound.flatten(), torch.tensor(sums, dtype=torch.float64).sum(1)),
        rises,
    )


@check(
    "eq-linear-attention",
    page=PAGE,
    source="equivariance, linear attention",
    title="Linear attention: keys and values are summed once",
    tex=(
        r"\begin{gathered} y_i = \frac{\phi(q_i)^\top \sum_j \phi(k_j) v_j^\top}{\phi(q_i)^\top \sum_j "
        r"\phi(k_j)}, \\ "
        r"\phi(x) = \operatorname{elu}(x) + 1 \end{gathered}"
    ),
    implements=(textbook.linear_attention, textbook.elu_feature),
    tolerance=1e-11,
)
def eq_linear_attention(rng):
    N, d, m = count(rng, 3, 6), count(rng, 2, 5), count(rng, 6, 8)
    q, k, v = normal(rng, 2, N, d), normal(rng, 2, N, d), normal(rng, 2, N, m)
    weight = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    slow = (weight / weight.sum(-1, keepdim=True)) @ v
    return max(error(textbook.linear_attention(q, k, v), slow), error(textbook.elu_feature(q), F.elu(q) + 1))


@check(
    "eq-linear-rope",
    page=PAGE,
    source="equivariance, corrected; RoFormer Eq. 19",
    title="Linear attention stays relative if the rotation comes after the feature map",
    tex=r"\bigl( R_m \phi(q) \bigr)^\top R_n \phi(k) = \phi(q)^\top R_{n-m} \, \phi(k)",
    implements=textbook.rotary_linear_attention,
    tolerance=1e-10,
)
def eq_linear_rope(rng):
    _, theta, p, q, k = _rotary_case(rng)
    v = normal(rng, 2, len(p), 3)
    f, g = F.elu(q) + 1, F.elu(k) + 1
    slow = torch.zeros_like(v)
    for m in range(len(p)):
        R = [textbook.rotation_matrix((p[n] - p[m]) * theta) for n in range(len(p))]
        weight = torch.stack([torch.einsum("bi,ij,bj->b", f[:, m], R[n], g[:, n]) for n in range(len(p))], -1)
        slow[:, m] = (weight[..., None] * v).sum(1) / (f[:, m : m + 1] * g).sum((1, 2))[:, None]
    shifted = textbook.rotary_linear_attention(q, k, v, p + number(rng, -9, 9), theta)
    return max(error(textbook.rotary_linear_attention(q, k, v, p, theta), slow), error(shifted, slow))


@check(
    "eq-linear-rope-printed",
    page=PAGE,
    source="equivariance, as printed: φ(q, m) = φ(R_m q)",
    title="With the rotation inside elu(x) + 1 the score is no longer relative",
    tex=(
        r"\begin{aligned} & \phi(R_{m+s}\, q)^\top \phi(R_{n+s}\, k) \\ "
        r"& \quad \neq \phi(R_m q)^\top \phi(R_n k) \end{aligned}"
    ),
    implements=(textbook.elu_feature, textbook.rope),
    tolerance=0.0,
)
def eq_linear_rope_printed(rng):
    _, theta, p, q, k = _rotary_case(rng)

    def scores(s):
        f, g = (textbook.elu_feature(textbook.rope(x, p + s, theta)) for x in (q, k))
        return f @ g.mT

    return must_fail(error(scores(1.0), scores(0.0)), least=1e-2)


@check(
    "eq-cache-rope",
    page=PAGE,
    source="circles and equivariance, key–value cache with RoPE",
    title="Cached keys keep the rotation of their own position",
    tex=(
        r"y_t = \sum_{j \le t} \operatorname{softmax}_j\!\left( \frac{(R_t q_t)^\top (R_j "
        r"k_j)}{\sqrt{d}} \right) v_j"
    ),
    implements=(textbook.decode, textbook.rope),
    tolerance=1e-11,
)
def eq_cache_rope(rng):
    _, theta, _, q, k = _rotary_case(rng, 5)
    q, k, v, p = q[0], k[0], normal(rng, 5, 3), torch.arange(5)
    cached = textbook.decode(textbook.rope(q, p, theta), textbook.rope(k, p, theta), v)
    scores = torch.full((5, 5), -math.inf, dtype=torch.float64)
    for t in range(5):
        for j in range(t + 1):
            scores[t, j] = q[t] @ textbook.rotation_matrix((j - t) * theta) @ k[j] / math.sqrt(q.shape[1])
    return error(cached, torch.softmax(scores, -1) @ v)
