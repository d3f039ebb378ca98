// Elements of the page, and vectors drawn as points.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function svg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const WIDTH = 400, HEIGHT = 320, MARGIN = 34;

// Points in the color of their sentence, those of the chosen word large; `words` are words of the vocabulary around
// them; `fixed` is the distance from the middle that reaches the border.
export function drawPoints({ places, points, words = [], title, fixed, chosen, wordOf, lineOf, colorOf, choose }) {
  const all = [...points, ...words.map(([, point]) => point)];
  const least = [0, 1].map((axis) => Math.min(...all.map((point) => point[axis])));
  const most = [0, 1].map((axis) => Math.max(...all.map((point) => point[axis])));
  const size = [WIDTH, HEIGHT].map((each) => each - 2 * MARGIN);
  const reach = fixed ? [2 * fixed, 2 * fixed] : most.map((each, axis) => each - least[axis]);
  const scale = Math.min(...size.map((each, axis) => each / Math.max(reach[axis], 1e-9)), 1e6);
  const middle = fixed ? [0, 0] : most.map((each, axis) => (each + least[axis]) / 2);
  const at = ([x, y]) => [WIDTH / 2 + (x - middle[0]) * scale, HEIGHT / 2 - (y - middle[1]) * scale];
  const isChosen = ([s, w]) => s === chosen[0] && w === chosen[1];
  const word = wordOf(chosen).toLowerCase();
  const name = `${title}: ${places.length} words as points; what is nearest is listed below.`;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": name });
  const labels = [], taken = [], meet = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  // A label stands at whichever side of its point is free; one that finds no place is left out.
  const said = new Set();
  const label = ([x, y], text, faint, must) => {
    // Words in one place, as in layer 0, share a label.
    const key = `${text} ${Math.round(x / 4)} ${Math.round(y / 4)}`;
    if (said.has(key)) return;
    said.add(key);
    const width = 7.2 * [...text].reduce((sum, each) => sum + (each > "\u1100" ? 1.7 : 1), 0);
    for (const [dx, dy] of [[11, 4], [-11 - width, 4], [-width / 2, -12], [-width / 2, 21]]) {
      const box = [x + dx, y + dy - 11, x + dx + width, y + dy + 3];
      const inside = box[0] > 2 && box[2] < WIDTH - 2 && box[1] > 0 && box[3] < HEIGHT;
      if (!inside || (!must && taken.some((other) => meet(box, other)))) continue;
      taken.push(box);
      labels.push(svg("text", { x: x + dx, y: y + dy, ...(faint ? { class: "faint" } : {}) }, text));
      return;
    }
  };
  // The chosen use first, then the other uses of its word.
  const rank = (index) => 2 * isChosen(places[index]) + (wordOf(places[index]).toLowerCase() === word);
  const order = places.map((_, index) => index).sort((a, b) => rank(b) - rank(a));
  const manyUses = places.every((place) => wordOf(place).toLowerCase() === word);
  for (const [x, y] of all.map(at)) taken.push([x - 6, y - 6, x + 6, y + 6]);
  for (const index of order) {
    const place = places[index], [x, y] = at(points[index]), own = wordOf(place).toLowerCase() === word;
    const kind = `${own ? "" : "small"} ${isChosen(place) ? "chosen" : ""}`;
    const circle = svg("circle", { cx: x, cy: y, r: own ? 7 : 4, class: kind, style: `--color: ${colorOf(place[0])}` });
    circle.append(svg("title", {}, `${wordOf(place)}: ${lineOf(place)}`));
    circle.addEventListener("click", () => choose(place));
    picture.prepend(circle);
    const text = manyUses && places.length > 1 ? hint(lineOf(place).split(" "), place[1]) : wordOf(place);
    label([x, y], text, !own, isChosen(place));
  }
  for (const [text, point] of words) {
    const [x, y] = at(point);
    picture.prepend(svg("circle", { cx: x, cy: y, r: 3.5, class: "small" }));
    label([x, y], text, true, false);
  }
  picture.append(...labels);
  return picture;
}

// A use by the words beside it, short enough to stand in the picture.
function hint(words, at) {
  const line = words.slice(Math.max(0, at - 1), at + 3).join(" ");
  return line.length > 26 ? `${line.slice(0, 25)}…` : line;
}
