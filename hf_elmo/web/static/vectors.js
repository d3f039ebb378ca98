// What is worked out of vectors: cosines, principal components, the mix, the softmax. Runs in the worker and in node.

export const dot = (a, b) => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
};

export const cosine = (a, b) => dot(a, b) / (Math.sqrt(dot(a, a) * dot(b, b)) || 1);

// gamma * sum_j s_j h_j, of a word's layers.
export function mix(layers, shares, gamma) {
  const mixed = new Float32Array(layers[0].length);
  layers.forEach((layer, j) => layer.forEach((value, i) => (mixed[i] += gamma * shares[j] * value)));
  return mixed;
}

// The two principal components of vectors: points [x, y], and the fraction of the variance that they have.
export function project(vectors) {
  const count = vectors.length, mean = new Float32Array(vectors[0].length);
  for (const vector of vectors) vector.forEach((value, i) => (mean[i] += value / count));
  const centered = vectors.map((vector) => vector.map((value, i) => value - mean[i]));
  const products = centered.map((a) => Float64Array.from(centered, (b) => dot(a, b)));
  const total = products.reduce((sum, row, i) => sum + row[i], 0);
  const points = vectors.map(() => [0, 0]);
  let explained = 0;
  for (let axis = 0; axis < Math.min(2, count - 1) && total > 1e-9; axis++) {
    let direction = Float64Array.from(products, (_, i) => Math.sin(i + 1 + axis)), length = 0;
    for (let step = 0; step < 300; step++) {
      const next = products.map((row) => dot(row, direction)), before = length;
      length = Math.sqrt(dot(next, next)) || 1e-12;
      direction = Float64Array.from(next, (value) => value / length);
      if (Math.abs(length - before) < 1e-9 * length) break;
    }
    explained += length / total;
    // An axis may point either way: the farthest point is at the right, or at the top.
    const farthest = direction.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a), 0);
    points.forEach((point, i) => (point[axis] = direction[i] * Math.sqrt(length) * (farthest < 0 ? -1 : 1)));
    products.forEach((row, i) => row.forEach((_, j) => (row[j] -= length * direction[i] * direction[j])));
  }
  return { points, explained: total > 1e-9 ? explained : 1 };
}

// A softmax over V words whose rows are in eight bits, each with its scale.
export class Softmax {
  constructor(scales, bias, codes, size) {
    Object.assign(this, { scales, bias, codes, size });
  }

  // log p of every word by each of the vectors; rows are read once for all of them.
  logProbabilities(vectors) {
    const { scales, bias, codes, size } = this, count = scales.length, row = new Float32Array(size);
    const all = vectors.map(() => new Float32Array(count));
    for (let word = 0; word < count; word++) {
      for (let i = 0, at = word * size; i < size; i++) row[i] = codes[at + i];
      for (let v = 0; v < vectors.length; v++) {
        const vector = vectors[v];
        let a = 0, b = 0, c = 0, d = 0, i = 0;
        for (; i + 3 < size; i += 4) {
          a += row[i] * vector[i]; b += row[i + 1] * vector[i + 1];
          c += row[i + 2] * vector[i + 2]; d += row[i + 3] * vector[i + 3];
        }
        for (; i < size; i++) a += row[i] * vector[i];
        all[v][word] = (a + b + c + d) * scales[word] + bias[word];
      }
    }
    for (const logits of all) normalize(logits);
    return all;
  }
}

// Turn logits into log probabilities.
export function normalize(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const sum = most + Math.log(logits.reduce((total, value) => total + Math.exp(value - most), 0));
  for (let i = 0; i < logits.length; i++) logits[i] -= sum;
}

// The indices of the largest values from `first` on, the largest first.
export function largest(values, count, first = 0) {
  const kept = [];
  for (let i = first; i < values.length; i++) {
    if (kept.length === count && values[i] <= values[kept[count - 1]]) continue;
    let at = kept.length;
    while (at && values[kept[at - 1]] < values[i]) at--;
    kept.splice(at, 0, i);
    kept.length = Math.min(kept.length, count);
  }
  return kept;
}
