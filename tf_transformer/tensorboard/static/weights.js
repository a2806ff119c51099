// Numbers about attention. A layer's weights are a Float32Array (heads, rows, columns), row-major.

/** Reads little-endian float16 into a Float32Array. */
export function fromFloat16(buffer) {
  const halves = new DataView(buffer);
  const weights = new Float32Array(buffer.byteLength / 2);
  for (let i = 0; i < weights.length; i++) {
    const bits = halves.getUint16(2 * i, true);
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    // Weights are from 0 to 1: there is no sign, no infinity and no NaN.
    weights[i] = exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : fraction * 2 ** -24;
  }
  return weights;
}

/** What can be picked of a layer beside its heads. */
export const COMBINED = ['mean', 'max'];

/** The weights (rows, columns) of a head, or their mean or maximum over all heads. */
export function pick(layer, heads, picked) {
  const size = layer.length / heads;
  if (!COMBINED.includes(picked)) return layer.subarray(picked * size, (picked + 1) * size);
  const out = new Float32Array(size);
  for (let i = 0; i < size; i++) {
    for (let at = i; at < layer.length; at += size) {
      out[i] = picked === 'max' ? Math.max(out[i], layer[at]) : out[i] + layer[at] / heads;
    }
  }
  return out;
}

/** The mean over the rows of their entropy, in bits: 0 where each row looks at one token alone. */
export function entropy(weights, rows) {
  let bits = 0;
  for (const weight of weights) {
    if (weight > 0) bits -= weight * Math.log2(weight);
  }
  return Math.abs(bits / rows);
}

/** How a head is called, or what takes its place. */
export function nameOf(picked) {
  return COMBINED.includes(picked) ? picked : `head ${Number(picked) + 1}`;
}
