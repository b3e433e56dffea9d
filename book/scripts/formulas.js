/* The formulas behind the moving figures, on plain arrays: what rollpe.ring, rollpe.formulas and
   rollpe.encodings.frequencies compute.

   Here: pure functions, no document. tests/figures/test_waves.py holds every one of them to the Python function
   named in its comment, to 1e-12. Not here: anything that draws or listens.

   Convention, as in the book: S is the matrix of Eq. 2, (S x)_i = x_{(i+1) mod n}; Δ = key − query. */

export const TAU = 2 * Math.PI;
export const range = (n) => Array.from({ length: n }, (_, i) => i);
export const mod = (a, n) => ((a % n) + n) % n;
export const sum = (x) => x.reduce((total, value) => total + value, 0);
export const mean = (x) => sum(x) / x.length;
export const dot = (x, y) => sum(x.map((value, i) => value * y[i]));
export const norm = (x) => Math.sqrt(dot(x, x));
export const add = (x, y) => x.map((value, i) => value + y[i]);
export const subtract = (x, y) => x.map((value, i) => value - y[i]);

/** A smooth bump around channel `center` of a ring, e^{κ(cos(2π(i−c)/n) − 1)}. figures/waves.py: bump */
export const bump = (n, center, sharpness) =>
  range(n).map((i) => Math.exp(sharpness * (Math.cos((TAU * (i - center)) / n) - 1)));

/** One at `channel`, zero elsewhere. */
export const pulse = (n, channel) => range(n).map((i) => (i === channel ? 1 : 0));

// Integer positions.

/** S^p x for whole p. ring.roll */
export const roll = (x, p) => x.map((_, i) => x[mod(i + p, x.length)]);

/** Σ_w S^{wp} x^(w), w = 1 … W. ring.multiplexed_roll */
export const multiplexedRoll = (waves, p) => waves.map((x, w) => roll(x, (w + 1) * p)).reduce(add);

const cut = (x) => [x.slice(0, x.length / 2), x.slice(x.length / 2)];
const gcd = (a, b) => (b ? gcd(b, a % b) : a);

/** The period of wave w on n channels, n / gcd(w, n). ring.wave_period */
export const wavePeriod = (n, w) => n / gcd(w, n);

/** What a pulse on n channels is at a distance: sin(πt)/(n sin(πt/n)), on an even ring times cos(πt/n). */
const kernel = (n, distance) => {
  const t = distance - n * Math.round(distance / n); // near 0, where the quotient loses no digits
  const value = t ? Math.sin(Math.PI * t) / (n * Math.sin((Math.PI * t) / n)) : 1;
  return n % 2 ? value : value * Math.cos((Math.PI * t) / n);
};

/** The smoothest wave through the entries of x, as a function of a real place on the ring:
    entry 0 of ring.continuous_roll(x, place, nyquist="cosine"). */
export const through = (x) => (place) =>
  dot(
    x,
    range(x.length).map((l) => kernel(x.length, place - l)),
  );

/** exp(pA/λ) x for real p; "paired" reads x as two rings, one after the other. ring.continuous_roll */
export const continuousRoll = (x, p, wavelength = 1, nyquist = "fixed") => {
  const rings = nyquist === "paired" ? cut(x) : [x];
  const step = p / wavelength;
  const moved = rings.map((ring) => ring.map((_, j) => through(ring)(step + j)));
  if (rings[0].length % 2 || nyquist === "cosine") return moved.flat();
  // The Nyquist modes, which the wave through the entries lets shrink and swell as cos πp/λ.
  const [a, b] = rings.map((ring) => mean(ring.map((value, i) => (-1) ** i * value)));
  const [cosine, sine] = [Math.cos(Math.PI * step), Math.sin(Math.PI * step)];
  const missing = nyquist === "paired" ? [-sine * b, sine * a] : [(1 - cosine) * a];
  return moved.flatMap((ring, r) => ring.map((value, j) => value + missing[r] * (-1) ** j));
};

// Frequencies.

/** ω_k = 2πk/(λn), k = 0 … ⌊n/2⌋. encodings.frequencies.ring */
export const ringFrequencies = (n, wavelength = 1) =>
  range(Math.floor(n / 2) + 1).map((k) => (TAU * k) / (wavelength * n));

/** ω_i = base^{−2i/d}, i = 0 … d/2−1. encodings.frequencies.geometric */
export const ropeFrequencies = (d, base = 10000) => range(d / 2).map((i) => base ** ((-2 * i) / d));

/** ω_k = π(2k + 1)/n, k = 0 … n/2−1, for even n. encodings.frequencies.twisted_ring */
export const twistedFrequencies = (n) => range(n / 2).map((k) => (Math.PI * (2 * k + 1)) / n);

/** Of two rings with m − 1 and m + 1 channels, the constant once; m even. figures/waves.py: angle_list */
export const residueFrequencies = (m) => [...ringFrequencies(m - 1), ...ringFrequencies(m + 1).slice(1)];

/** The frequency in [0, π] that takes the same values as cos(ωp) at whole p: arccos(cos ω). */
export const apparentFrequency = (omega) => Math.abs(mod(omega + Math.PI, TAU) - Math.PI);

/** The least Δ from 1 to 5000 at which all ω_iΔ are multiples of 2π; 0 if there is none. figures/waves.py: period */
export const period = (frequencies) =>
  range(5001).find((p) => p && frequencies.every((omega) => apparentFrequency(omega * p) < 1e-6)) ?? 0;

/** How many different numbers e^{±iω_i} there are. figures/waves.py: eigenvalue_count */
export const eigenvalueCount = (frequencies) => {
  const seen = frequencies.map(apparentFrequency).sort((a, b) => a - b);
  const different = seen.filter((omega, i) => i === 0 || omega - seen[i - 1] > 1e-6);
  return sum(different.map((omega) => (omega < 1e-6 || Math.PI - omega < 1e-6 ? 1 : 2)));
};

// The Fourier basis.

/** The unitary DFT of a real vector at k = 0 … ⌊n/2⌋, as [real, imaginary]. torch.fft.rfft, norm="ortho" */
export const spectrum = (x) => {
  const n = x.length;
  return range(Math.floor(n / 2) + 1).map((k) => {
    const angle = (i) => (TAU * ((k * i) % n)) / n;
    const real = sum(x.map((value, i) => value * Math.cos(angle(i))));
    const imaginary = -sum(x.map((value, i) => value * Math.sin(angle(i))));
    return [real / Math.sqrt(n), imaginary / Math.sqrt(n)];
  });
};

const turn = ([real, imaginary], angle) => [
  real * Math.cos(angle) - imaginary * Math.sin(angle),
  real * Math.sin(angle) + imaginary * Math.cos(angle),
];

/** Where the Nyquist mode of the first ring has gone, in the plane of the two rings' Nyquist modes. */
export const nyquistPlace = (p, nyquist) =>
  ({ fixed: [1, 0], cosine: [Math.cos(Math.PI * p), 0], paired: turn([1, 0], Math.PI * p) })[nyquist];

// Scores.

/** (R_m q)·(R_n k) from Δ = n − m, interleaved pairs. formulas.rope_score */
export const ropeScore = (q, k, delta, frequencies) =>
  sum(
    frequencies.map((omega, i) => {
      const [even, odd] = turn([k[2 * i], k[2 * i + 1]], omega * delta);
      return q[2 * i] * even + q[2 * i + 1] * odd;
    }),
  );

/** (1/m) Σ_i cos(ω_i Δ). formulas.similarity_kernel */
export const similarityKernel = (delta, frequencies) =>
  sum(frequencies.map((omega) => Math.cos(omega * delta))) / frequencies.length;

/** Which value of a setting of the figure `picture` is chosen. */
export const chosen = (settings, state, key) => settings.row[key].map(String).indexOf(state[key]);

/** ln(N w) of a query with its N keys under an encoding, in a state of the figure `picture`, whose data
    figures/picture.py has packed as bytes. Encoding.weights */
export const logWeights = ({ views, settings, moves, contents, reach, limit }, name, state) => {
  const encoding = views[state.view][name];
  const count = state.view === "row" ? 2 * reach.row + 1 : (2 * reach.image + 1) ** 2;
  const along = encoding.takes.map((key) => [settings.row[key].length, chosen(settings, state, key)]);
  if (encoding.moves) along.push([moves, state.moved]);
  along.push([contents.length, contents.indexOf(state.content)]);
  const start = count * along.reduce((at, [size, i]) => at * size + i, 0);
  encoding.bytes ||= Int8Array.from(atob(encoding.cells), (byte) => byte.charCodeAt(0));
  return Array.from(encoding.bytes.subarray(start, start + count), (byte) => (limit * byte) / 127);
};

// Correlations of channels.

/** The matrix r [n][n] of its pairs i < j, row by row, in units of 1/127. topography.unpack_correlations */
export const channelCorrelations = (packed) => {
  const n = (1 + Math.sqrt(1 + 8 * packed.length)) / 2;
  const pair = (i, j) => packed[i * n - (i * (i + 1)) / 2 + j - i - 1] / 127;
  return range(n).map((i) => range(n).map((j) => (i === j ? 1 : pair(Math.min(i, j), Math.max(i, j)))));
};

/** Mean correlation of neighbors on the ring, and of any two channels. topography.near_and_any */
export const nearAndAny = (r) => {
  const n = r.length;
  const pairs = sum(r.flatMap((row, i) => row.filter((_, j) => j !== i)));
  return [sum(r.map((row, i) => row[mod(i + 1, n)])) / n, pairs / (n * (n - 1))];
};
