// Runs the web page of a service once, without a browser, and prints the text of each element
// that is shown, by its id, as JSON: the cells of a row separated by " | ", rows by line ends.
//
//	node page.mjs URL EXECUTION
const [url, selected] = process.argv.slice(2);
const fetchText = async (path) => (await fetch(url + path)).text();

class Element {
  constructor(tag, hidden = false) { Object.assign(this, { tag, hidden, className: "", children: [] }); }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  addEventListener() {}
  set textContent(text) { this.children = [String(text)]; }
  get text() {
    const parts = this.children.map((c) => (c instanceof Element ? c.text : c));
    return parts.join(this.tag === "tr" ? " | " : this.tag === "tbody" ? "\n" : "");
  }
}

const elements = new Map();
for (const [, tag, attributes, id, more] of (await fetchText("/")).matchAll(/<(\w+)([^>]*) id="([^"]+)"([^>]*)>/g)) {
  elements.set(id, new Element(tag, /\bhidden\b/.test(attributes + more)));
}
globalThis.Node = Element;
globalThis.document = { getElementById: (id) => elements.get(id) ?? null, createElement: (tag) => new Element(tag) };
globalThis.location = { hash: "#" + selected };
globalThis.setInterval = () => 0;
const request = globalThis.fetch;
globalThis.fetch = (path, options) => request(path.startsWith("/") ? url + path : path, options);

await import("data:text/javascript," + encodeURIComponent(await fetchText("/monitor/page.js")));
const shown = [...elements].filter(([, element]) => !element.hidden).map(([id, element]) => [id, element.text]);
process.stdout.write(JSON.stringify(Object.fromEntries(shown)));
