// The page: sentences, the chosen word and three views of it. What is computed comes from worker.js.

import { drawPoints, element } from "./drawing.js";

const $ = (id) => document.getElementById(id);
const COLORS = ["#3b6fd4", "#c2410c", "#12805c", "#a21caf", "#b58900", "#0e7490", "#be123c", "#6d5bd0"];
const state = { facts: null, sentences: [], place: null, view: "context", shares: [], gamma: 1, only: true };
const colorOf = (sentence) => COLORS[sentence % COLORS.length];

// A failure is told in one line.
function fail(error) {
  const memory = /memory|allocat|RangeError|out of bounds/i.test(error) ? "There is not enough memory for the model" : "It did not work";
  $("status").textContent = `${memory}: ${error.split("\n")[0].slice(0, 200)}`;
  $("status").className = "failure";
}

let worker, number = 0;
const waiting = new Map();
export const ask = (name, given) => new Promise((resolve, reject) => {
  waiting.set(++number, { resolve, reject });
  worker.postMessage({ id: number, name, given });
});
// What the page asks for while an older question of the same kind is open is asked once, when that is answered.
const open = new Map();
async function askLatest(name, given, show) {
  if (open.has(name)) return void open.set(name, [given, show]);
  open.set(name, null);
  try {
    const result = await ask(name, given);
    if (!open.get(name)) show(result);
  } catch (error) {
    fail(error.message);
  }
  const next = open.get(name);
  open.delete(name);
  if (next) await askLatest(name, ...next);
}

// In steps: a screen reader says each.
function tellProgress(megabytes) {
  const text = `Loading the model: ${5 * Math.floor(megabytes / 5)} MB …`;
  if (!state.facts && $("status").textContent !== text) $("status").textContent = text;
}

async function start() {
  if (typeof WebAssembly !== "object") return fail("this browser has no WebAssembly, with which the model is computed.");
  if (typeof DecompressionStream !== "function") return fail("this browser is too old to unpack the model; a newer one can.");
  worker = new Worker("worker.js", { type: "module" });
  worker.onerror = (event) => fail(event.message || "the worker could not be started; serve the folder by http, not as a file.");
  worker.onmessage = ({ data: { id, result, error, megabytes } }) => {
    if (megabytes) return tellProgress(megabytes);
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error) reject(new Error(error));
    else resolve(result);
  };
  state.facts = await ask("load");
  const { facts } = state, percent = (value) => `${(100 * value).toFixed(1)} %`;
  $("name").textContent = facts.name;
  document.title = `ELMo in the page: ${facts.name}`;
  const { vectors, surprisal, surprisal_most: most } = facts.errors;
  $("facts").textContent = "The weights are rounded to eight bits, those of the softmax to six. On the examples, vectors differ " +
    `from the checkpoint's by ${vectors.map(percent).join(", ")} of their length (layers 0 to ${facts.layers - 1})` +
    (facts.softmaxes ? `, surprisals by ${surprisal.toFixed(2)} bits on average and ${most.toFixed(2)} at most.` : ". It has no softmax: nothing surprises it.");
  $("tab-surprise").hidden = !facts.softmaxes;
  for (const [name, texts] of Object.entries(facts.examples)) {
    const button = $("examples").appendChild(element("button", { type: "button", "aria-pressed": "false" }, name));
    button.onclick = () => openExample(button, texts);
  }
  makeSliders();
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (wanted.has("view")) choosePanel(wanted.get("view"));
  await openExample($("examples").children[Number(wanted.get("example") ?? 0)], Object.values(facts.examples)[Number(wanted.get("example") ?? 0)]);
}

function openExample(button, texts) {
  for (const each of $("examples").children) each.setAttribute("aria-pressed", String(each === button));
  $("text").value = texts.map((text) => text.replace("*", "")).join("\n");
  const marked = texts.findIndex((text) => text.includes("*"));
  return readText([Math.max(0, marked), (texts[marked] ?? "").match(/\*(\S+)/)?.[1]]);
}

async function readText(wanted) {
  const texts = $("text").value.split("\n").filter((text) => text.trim()).slice(0, 40), begun = performance.now();
  if (!texts.length) return;
  await askLatest("read", { texts }, (sentences) => {
    const before = state.sentences;
    state.sentences = sentences;
    if (!sentences.some((each) => each.length)) return;
    // The word that was chosen, where it is still there; else the one at its place, or the first of all.
    const [s, w] = state.place ?? [0, 0], word = wanted ? wanted[1] : before[s]?.[w], line = wanted ? wanted[0] : s;
    const found = (sentences[line] ?? []).indexOf(word);
    if (found >= 0) state.place = [line, !wanted && sentences[s][w] === word ? w : found];
    else if (wanted || sentences[s]?.[w] === undefined) state.place = [Math.max(0, sentences.findIndex((each) => each.length)), 0];
    const count = sentences.reduce((sum, each) => sum + each.length, 0), seconds = ((performance.now() - begun) / 1000).toFixed(2);
    $("status").textContent = `Read ${count} words in ${sentences.length} sentences, in ${seconds} s.`;
    $("status").className = "faint";
    $("reading").hidden = $("tabs").hidden = false;
    showSentences();
    show();
  });
}

let pause;
$("text").addEventListener("input", () => {
  for (const each of $("examples").children) each.setAttribute("aria-pressed", "false");
  clearTimeout(pause);
  pause = setTimeout(() => state.facts && readText().catch((error) => fail(error.message)), 350);
});

// Words are buttons, one of which is in the order of the tab key; the arrow keys go from word to word.
function wordButton(s, w, word) {
  const button = element("button", { type: "button", "data-s": s, "data-w": w }, word);
  button.onclick = () => choose([s, w]);
  return button;
}

function showSentences() {
  $("sentences").replaceChildren(...state.sentences.map((words, s) => {
    const item = element("li", { style: `--color: ${colorOf(s)}` });
    item.append(...words.map((word, w) => wordButton(s, w, word)));
    return item;
  }));
}

function markWords() {
  const [s, w] = state.place, word = state.sentences[s][w];
  for (const button of document.querySelectorAll("#sentences button, #heat button")) {
    const own = Number(button.dataset.s) === s && Number(button.dataset.w) === w;
    button.setAttribute("aria-pressed", String(own));
    button.tabIndex = own ? 0 : -1;
    button.classList.toggle("same", button.textContent.toLowerCase() === word.toLowerCase());
  }
  for (const each of document.querySelectorAll(".chosen-word")) each.textContent = `“${word}”`;
  const count = state.sentences.flat().filter((each) => each.toLowerCase() === word.toLowerCase()).length;
  for (const box of document.querySelectorAll(".only")) {
    box.disabled = count < 3;
    box.checked = state.only && count >= 3;
  }
  return state.only && count >= 3;
}

function choose(place) {
  state.place = place;
  show();
}

for (const id of ["sentences", "heat"]) {
  $(id).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: "down", ArrowUp: "up" }[event.key];
    if (!step || !event.target.dataset.w) return;
    event.preventDefault();
    let [s, w] = [Number(event.target.dataset.s), Number(event.target.dataset.w)];
    if (typeof step === "number") w += step;
    else do s += step === "down" ? 1 : -1; while (state.sentences[s]?.length === 0);
    if (!state.sentences[s]) return;
    choose([s, Math.max(0, Math.min(w, state.sentences[s].length - 1))]);
    $(id).querySelector("[aria-pressed=true]").focus();
  });
}

// Views
const tabs = [...document.querySelectorAll("[role=tab]")];
function choosePanel(name) {
  state.view = tabs.some((tab) => tab.id === `tab-${name}`) ? name : "context";
  for (const tab of tabs) {
    const own = tab.id === `tab-${state.view}`;
    tab.setAttribute("aria-selected", String(own));
    tab.tabIndex = own ? 0 : -1;
  }
  if (state.sentences.length) show();
}
tabs.forEach((tab, index) => {
  tab.onclick = () => choosePanel(tab.id.slice(4));
  tab.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], shown = tabs.filter((each) => !each.hidden);
    if (!step) return;
    const next = shown[(shown.indexOf(tab) + step + shown.length) % shown.length];
    next.focus();
    next.click();
  };
});
for (const box of document.querySelectorAll(".only")) box.onchange = () => { state.only = box.checked; show(); };

function show() {
  const onlyWord = markWords(), { place } = state;
  for (const name of ["context", "mix", "surprise"]) $(name).hidden = name !== state.view;
  if (state.view === "context") askLatest("explore", { place, onlyWord }, showLayers);
  if (state.view === "mix") askLatest("mixed", { place, onlyWord, shares: state.shares, gamma: state.gamma }, showMix);
  if (state.view === "surprise") showSurprise().catch((error) => fail(error.message));
}

const context = ([s, w], around = 4) => {
  const words = state.sentences[s], line = element("span"), from = Math.max(0, w - around), to = Math.min(words.length, w + around + 1);
  line.append(`${from ? "… " : ""}${words.slice(from, w).join(" ")} `, element("b", {}, words[w]));
  line.append(` ${words.slice(w + 1, to).join(" ")}${to < words.length ? " …" : ""}`);
  return line;
};

function nearestList(nearest) {
  const list = element("ol", { class: "nearest" });
  for (const [place, cosine] of nearest) {
    const item = element("li", { style: `--color: ${colorOf(place[0])}` });
    item.append(element("span", { class: "number" }, cosine.toFixed(2)), context(place));
    list.append(item);
  }
  return list;
}

const draw = (look, title, fixed) => drawPoints({
  ...look, title, fixed, chosen: state.place, colorOf, choose,
  wordOf: ([s, w]) => state.sentences[s][w], lineOf: ([s]) => state.sentences[s].join(" "),
});

function showLayers({ layers, staticNearest }) {
  $("layers").replaceChildren(...layers.map((look, j) => {
    const panel = element("div"), name = j ? `Layer ${j} of the biLM` : "Layer 0: the token encoder";
    const note = j ? `two principal components, ${Math.round(100 * look.explained)} % of the variance` :
      look.words ? "one vector for all uses, whatever the sentence; drawn among its nearest words" : "one vector for all uses of a word, from its characters";
    panel.append(element("h2", {}, name), element("p", { class: "faint note" }, note), draw(look, name));
    if (j) panel.append(element("h3", {}, "nearest uses on this page, by cosine"), nearestList(look.nearest));
    else {
      panel.append(element("h3", {}, "nearest words of the vocabulary, by cosine"));
      const list = panel.appendChild(element("ol", { class: "nearest" }));
      for (const [word, cosine] of staticNearest) list.append(element("li", {}, element("span", { class: "number" }, cosine.toFixed(2)), word));
    }
    return panel;
  }));
}

// The ELMo layer
function makeSliders() {
  const { layers, shares, gamma } = state.facts;
  $("top").textContent = layers - 1;
  state.shares = [...shares];
  state.gamma = gamma;
  const slider = (name, label, most) => {
    const input = element("input", { type: "range", min: 0, max: most, step: 0.01, id: name });
    $("sliders").append(element("label", {}, label, input, element("output", { for: name })));
    return input;
  };
  shares.forEach((_, j) => {
    const input = slider(`s${j}`, `s${"₀₁₂₃₄₅₆₇₈₉"[j] ?? j} (${j ? `layer ${j}` : "token encoder"})`, 1);
    input.oninput = () => {
      const value = Number(input.value), rest = state.shares.reduce((sum, each, i) => sum + (i === j ? 0 : each), 0);
      setMix(state.shares.map((each, i) => (i === j ? value : rest > 1e-6 ? (each * (1 - value)) / rest : (1 - value) / (layers - 1))), state.gamma);
    };
  });
  slider("gamma", "γ (length)", 3).oninput = () => setMix(state.shares, Number($("gamma").value));
  const preset = (name, given) => {
    const button = $("presets").appendChild(element("button", { type: "button" }, name));
    button.onclick = () => setMix(given, name === "as in the checkpoint" ? gamma : state.gamma);
  };
  preset("as in the checkpoint", [...shares]);
  shares.forEach((_, j) => preset(j === layers - 1 ? "top alone" : `layer ${j} alone`, shares.map((_, i) => Number(i === j))));
  setMix(state.shares, gamma);
}

function setMix(shares, gamma) {
  Object.assign(state, { shares, gamma });
  [...shares, gamma].forEach((value, j) => {
    const input = j < shares.length ? $(`s${j}`) : $("gamma");
    input.value = value;
    input.nextElementSibling.textContent = value.toFixed(2);
  });
  if (state.sentences.length) show();
}

function showMix(look) {
  const { shares, gamma } = state, sum = shares.map((share, j) => `${share.toFixed(2)} h${"₀₁₂₃₄₅₆₇₈₉"[j] ?? j}`).join(" + ");
  const scale = Math.max(...look.points.flat().map(Math.abs), 1e-9) / (gamma || 1);
  $("mixed").replaceChildren(
    element("h2", {}, `ELMo = ${gamma.toFixed(2)} · (${sum})`),
    element("p", { class: "faint" }, `length of the vector: ${look.length.toFixed(2)}. γ changes lengths and distances, not the angles: the neighbors stay.`),
    draw(look, "The mix", scale * Math.max(1, gamma)), element("h3", {}, "nearest uses on this page, by cosine"),
    gamma ? nearestList(look.nearest) : element("p", {}, "With γ = 0 all vectors are zero."),
  );
}

// Surprise
const MOST_BITS = 16;
let turn = 0;

// The sentence of the chosen word first, then the others as they come.
async function showSurprise() {
  const own = ++turn, { place, sentences } = state, [chosen, w] = place;
  if ($("heat").children.length !== sentences.length) $("heat").replaceChildren(...sentences.map(() => element("div")));
  for (const s of [chosen, ...sentences.keys()]) {
    const scores = await ask("surprise", { sentence: s });
    if (own !== turn || sentences !== state.sentences) return;
    const focused = $("heat").children[s].contains(document.activeElement);
    $("heat").children[s].replaceWith(heatTable(s, scores));
    markWords();
    if (s === chosen) showExpected(scores[w]);
    if (focused) $("heat").querySelector("[aria-pressed=true]")?.focus();
  }
}

function heatTable(s, words) {
  const names = element("tr", {}, element("th")), table = element("table", {}, names);
  words.forEach(({ word, isUnknown }, w) => {
    const button = wordButton(s, w, word);
    if (isUnknown) {
      button.classList.add("unknown");
      button.title = "not among the words of the softmax: scored as <UNK>";
    }
    names.append(element("td", {}, button));
  });
  for (const [direction, arrow] of [["forward", "→"], ["backward", "←"]]) {
    const row = table.appendChild(element("tr", {}, element("th", { scope: "row" }, `${arrow} ${direction}`)));
    for (const each of words) {
      const part = 0.85 * Math.min(1, each[direction] / MOST_BITS);
      row.append(element("td", { class: "bits", style: `--part: ${part.toFixed(3)}` }, each[direction].toFixed(1)));
    }
  }
  return table;
}

function showExpected({ word, expected, ...bits }) {
  const titles = { forward: "→ from what stands before", backward: "← from what stands behind", both: "↔ from both sides" };
  $("expected").replaceChildren(...Object.entries(titles).map(([name, title]) => {
    const own = `“${word}”: ${bits[name].toFixed(1)} bits, p = ${(2 ** -bits[name]).toPrecision(2)}. Expected:`;
    const panel = element("div", {}, element("h2", {}, title), element("p", { class: "faint" }, own));
    for (const [other, p] of expected[name]) {
      const percent = (100 * p).toFixed(1), bar = element("span", {}, element("i", { style: `width: ${percent}%` }));
      panel.append(element("div", { class: "bar" }, element("span", { class: "word" }, other), bar, element("span", { class: "number" }, `${percent} %`)));
    }
    return panel;
  }));
}

start().catch((error) => fail(error.message));
