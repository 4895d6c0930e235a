// A small imitation of a browser: opens pages of `mexma review` one after the other, with one localStorage, and
// presses keys. Arguments: "usual" or "full" (the storage), and [[page, keys], ...] as JSON.
const fs = require("fs"), item = new Map(), full = process.argv[2] === "full";
const localStorage = {getItem: key => item.has(key) ? item.get(key) : null, removeItem: key => item.delete(key),
  setItem(key, value) { if (full) throw new Error("full"); item.set(key, value); }};
const text = html => html.replace(/<[^>]*>/g, "");
function open(page) {
  const content = fs.readFileSync(page, "utf8"), on = {}, elements = {};
  const pairs = [...content.matchAll(/<article .*?data-number="(.*?)" data-score="(.*?)".*?>([^]*?)<.article>/g)].map(
    ([, number, score, inner]) => ({dataset: {number, score}, hidden: false, textContent: text(inner), scrollIntoView() {},
      classList: {add() {}, remove() {}}, querySelector: () => null, querySelectorAll: () =>
        [...inner.matchAll(/<p class="side"[^>]*>([^]*?)<.p>/g)].map(side => ({textContent: text(side[1])}))}));
  const element = () => ({value: "all", addEventListener() {}, append() {}});
  const document = {title: content.match(/<title>(.*?)<.title>/)[1], querySelectorAll: () => pairs,
    getElementById: id => elements[id] = elements[id] || element(), addEventListener: (name, done) => on[name] = done};
  new Function("document", "localStorage", content.match(/<script>([^]*?)<.script>/)[1])(document, localStorage);
  return {press: keys => [...keys].forEach(key => on.keydown({key, target: {tagName: "BODY"}, preventDefault() {}})),
    said: () => elements.said.textContent};
}
const said = [];
for (const [page, keys] of JSON.parse(process.argv[3])) {
  const opened = open(page);
  opened.press(keys);
  said.push(opened.said());
}
console.log(JSON.stringify(said));
