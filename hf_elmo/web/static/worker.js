// All computation: loads the model, reads sentences, and answers what the page asks of them. The page never waits.

import * as ort from "./runtime/ort.wasm.min.mjs";
import { Tokenizer } from "./tokenizer.js";
import { Softmax, cosine, dot, largest, mix, normalize, project } from "./vectors.js";

const NEAREST = 6, MOST_WORDS = 60;
let facts, tokenizer, session, words, ids, table, softmaxes, logPrior;
let sentences = [];
const read = new Map();

const get = async (name) => {
  const response = await fetch(`model/${name}`);
  if (!response.ok) throw new Error(`model/${name} is not there (${response.status})`);
  return response;
};
// What has come of the files is told to the page.
let bytes = 0;
const counted = () => new TransformStream({
  transform(chunk, stream) {
    postMessage({ megabytes: (bytes += chunk.length) / 1e6 });
    stream.enqueue(chunk);
  },
});
const unpack = async (name) => {
  const packed = (await get(name)).body.pipeThrough(counted());
  return new Response(packed.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
};

async function load() {
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = new URL("runtime/", import.meta.url).href;
  ort.env.logLevel = "error";
  const begin = async () => ort.InferenceSession.create(new Uint8Array(await unpack("graph.bin")), {
    executionProviders: ["wasm"], extra: { session: { disable_quant_qdq: "1" } },
  });
  const [given, rules, list, graph, rows] = await Promise.all([
    get("facts.json").then((each) => each.json()), get("tokenizer.json").then((each) => each.json()),
    get("words.txt").then((each) => each.text()), begin(), unpack("static.bin"),
  ]);
  [facts, tokenizer, session, words] = [given, new Tokenizer(rules), graph, list.split("\n")];
  ids = new Map(words.map((word, index) => [word, index]));
  const size = facts.projection, codes = new Int8Array(rows);
  table = facts.table.map((_, index) => unit(Float32Array.from(codes.subarray(index * size, (index + 1) * size))));
  return facts;
}

const unit = (vector) => {
  const length = Math.sqrt(dot(vector, vector)) || 1;
  return vector.map((value) => value / length);
};

async function loadSoftmaxes() {
  if (softmaxes) return;
  const data = await unpack("softmax.bin"), count = words.length, size = facts.projection;
  softmaxes = Array.from({ length: facts.softmaxes }, (_, index) => {
    const at = index * count * (8 + size);
    return new Softmax(new Float32Array(data, at, count), new Float32Array(data, at + 4 * count, count),
      new Int8Array(data, at + 8 * count, count * size), size);
  });
  // Zipf's law, as hf_elmo's ElmoScorer takes it for p(w).
  logPrior = Float32Array.from(words, (_, index) => Math.log(Math.log((index + 2) / (index + 1)) / Math.log(count + 1)));
}

// Read texts, those that are new in one batch; each has its words and their layers, the special tokens' too.
async function readTexts(texts) {
  const fresh = [...new Set(texts)].filter((text) => !read.has(text));
  const cut = fresh.map((text) => tokenizer.tokenize(text).slice(0, MOST_WORDS)), width = tokenizer.rules.width;
  if (fresh.length) {
    const length = 2 + Math.max(1, ...cut.map((each) => each.length)), count = fresh.length;
    const input = new BigInt64Array(count * length * width), mask = new BigInt64Array(count * length);
    cut.forEach((each, b) => ["<S>", ...each, "</S>"].forEach((word, t) => {
      mask[b * length + t] = 1n;
      tokenizer.row(word).forEach((id, c) => (input[(b * length + t) * width + c] = BigInt(id)));
    }));
    const found = await session.run({
      input_ids: new ort.Tensor("int64", input, [count, length, width]),
      attention_mask: new ort.Tensor("int64", mask, [count, length]),
    });
    const size = 2 * facts.projection;
    cut.forEach((each, b) => {
      const layers = Array.from({ length: facts.layers }, (_, j) => Array.from({ length: each.length + 2 }, (_, t) =>
        found[`hidden_states.${j}`].data.slice((b * length + t) * size, (b * length + t + 1) * size)));
      read.set(fresh[b], { words: each, layers });
    });
  }
  sentences = texts.map((text) => read.get(text));
  for (const text of [...read.keys()].slice(0, Math.max(0, read.size - 200))) read.delete(text);
  return sentences.map((each) => each.words);
}

const vectorOf = ([s, w], layer) => sentences[s].layers[layer][w + 1];
const hasLetter = (word) => /[\p{L}\p{N}]/u.test(word);
const places = () => sentences.flatMap(({ words }, s) => words.flatMap((word, w) => (hasLetter(word) ? [[s, w]] : [])));
const wordAt = ([s, w]) => sentences[s].words[w];
const same = (a, b) => a.toLowerCase() === b.toLowerCase();

// Where the words lie by their vectors, and which are nearest to the chosen one.
function look(place, vectors, all, drawn, scaled = 1) {
  const at = all.findIndex((each) => each[0] === place[0] && each[1] === place[1]);
  const own = vectors[at] ?? vectors[0], cosines = vectors.map((each, i) => (i === at ? -Infinity : cosine(own, each)));
  const shown = all.flatMap((each, i) => (drawn(each) ? [i] : []));
  const { points, explained } = project(shown.map((i) => vectors[i]));
  return {
    places: shown.map((i) => all[i]), points, explained, length: Math.sqrt(dot(own, own)),
    nearest: largest(cosines, Math.min(NEAREST, all.length - 1)).map((i) => [all[i], cosines[i]]),
  };
}

function staticNearest(place) {
  const own = unit(vectorOf(place, 0).subarray(0, facts.projection)), word = wordAt(place);
  const cosines = table.map((each) => dot(own, each)), found = [];
  for (const index of largest(cosines, 4 * NEAREST)) {
    const other = facts.table[index];
    if (!same(other, word) && !found.some(([each]) => same(facts.table[each], other))) found.push([index, cosines[index]]);
  }
  return found.slice(0, 8);
}

function explore({ place, onlyWord }) {
  const all = places(), word = wordAt(place), drawn = (each) => !onlyWord || same(wordAt(each), word);
  const layers = Array.from({ length: facts.layers }, (_, j) => look(place, all.map((each) => vectorOf(each, j)), all, drawn));
  const found = staticNearest(place);
  if (onlyWord && found.length) {
    // The word's uses are one point there: it is drawn among the words that lie near it.
    const own = unit(vectorOf(place, 0).subarray(0, facts.projection));
    const { points, explained } = project([own, ...found.map(([index]) => table[index])]);
    Object.assign(layers[0], { places: [place], points: [points[0]], words: found.map(([i], n) => [facts.table[i], points[n + 1]]), explained });
  }
  return { layers, staticNearest: found.map(([index, value]) => [facts.table[index], value]) };
}

function mixed({ place, shares, gamma, onlyWord }) {
  const all = places(), word = wordAt(place), drawn = (each) => !onlyWord || same(wordAt(each), word);
  const layersOf = ([s, w]) => sentences[s].layers.map((layer) => layer[w + 1]);
  return look(place, all.map((each) => mix(layersOf(each), shares, gamma)), all, drawn);
}

// The scores of a sentence are kept: choosing another word asks for them again.
async function surprise({ sentence }) {
  await loadSoftmaxes();
  return sentences[sentence] && (sentences[sentence].scores ??= score(sentences[sentence]));
}

function score({ words: own, layers }) {
  const top = layers.at(-1), size = facts.projection, bits = -1 / Math.LN2;
  const forward = softmaxes[0].logProbabilities(own.map((_, w) => top[w].subarray(0, size)));
  const backward = softmaxes.at(-1).logProbabilities(own.map((_, w) => top[w + 2].subarray(size)));
  return own.map((word, w) => {
    const id = ids.get(word) ?? ids.get("<UNK>") ?? 2, both = forward[w].map((value, i) => value + backward[w][i] - logPrior[i]);
    normalize(both);
    const expected = (scores) => largest(scores, 6, 3).map((index) => [words[index], Math.exp(scores[index])]);
    return {
      word, isUnknown: !ids.has(word), forward: forward[w][id] * bits, backward: backward[w][id] * bits, both: both[id] * bits,
      expected: { forward: expected(forward[w]), backward: expected(backward[w]), both: expected(both) },
    };
  });
}

// The vectors of the words of texts in every layer, as arrays of numbers: for whoever checks them.
const vectors = async ({ texts }) => {
  await readTexts(texts);
  return sentences.map(({ layers }) => layers.map((layer) => layer.slice(1, -1).map((vector) => Array.from(vector))));
};

const answers = { load, read: ({ texts }) => readTexts(texts), explore, mixed, surprise, vectors };
let last = Promise.resolve();
onmessage = ({ data: { id, name, given } }) => {
  last = last.then(async () => {
    try {
      postMessage({ id, result: await answers[name](given ?? {}) });
    } catch (error) {
      postMessage({ id, error: String(error?.message ?? error) });
    }
  });
};
