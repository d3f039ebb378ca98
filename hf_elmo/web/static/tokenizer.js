// The tokenizer of the checkpoint: the same words and the same rows of character ids as Python's, by tokenizer.json.

const FIRST_KIND = 0xe000;

export class Tokenizer {
  constructor(rules) {
    this.rules = rules;
    this.pattern = new RegExp(rules.pattern, "g");
    this.unseen = rules.unseen && new RegExp(rules.unseen, "gu");
    this.kinds = new Uint16Array(0x110000);
    let at = 0;
    rules.starts.forEach((step, index) => this.kinds.fill(FIRST_KIND + rules.kinds[index], (at += step)));
    this.ids = rules.characters && new Map(rules.characters.map((each, index) => [each, index + 1]));
    this.special = new Map(Object.entries(rules.special));
  }

  clean(text, space) {
    if (this.unseen) text = text.replaceAll(this.rules.space, space).replace(this.unseen, "");
    if (this.rules.normalization) text = text.normalize(this.rules.normalization);
    return Array.from(text, (each) => this.rules.marks[each] ?? each).join("");
  }

  lower(word) {
    return this.rules.lower && !this.special.has(word) ? word.toLowerCase() : word;
  }

  // The words of a text, as they are read.
  tokenize(text) {
    const characters = Array.from(this.clean(text, " "));
    const kinds = characters.map((each) => String.fromCharCode(this.kinds[each.codePointAt(0)])).join("");
    return Array.from(kinds.matchAll(this.pattern), (match) =>
      this.lower(characters.slice(match.index, match.index + match[0].length).join("")));
  }

  // The character ids of a word, padded to the width.
  row(word) {
    const { begin, end, padding, width, unknown } = this.rules;
    const row = new Array(width).fill(padding);
    word = this.lower(this.clean(word, ""));
    if (this.ids) word = { "<bos>": "<S>", "<eos>": "</S>" }[word] ?? word;
    let ids = [this.special.get(word)];
    if (ids[0] === undefined) {
      ids = this.ids
        ? Array.from(word, (each) => this.ids.get(each) ?? unknown)
        : Array.from(new TextEncoder().encode(word.replace(/\p{Cs}/gu, "")), (byte) => byte + 1);
    }
    [begin, ...ids.slice(0, width - 2), end].forEach((id, index) => (row[index] = id));
    return row;
  }
}
