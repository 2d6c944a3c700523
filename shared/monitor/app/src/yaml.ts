// YAML of a value that came as JSON, in block style: what people write definitions in.

/** plainRE matches texts that YAML reads as themselves, in keys and in lists too; wordRE those that it takes for something else. */
const plainRE = /^[A-Za-z_/$][\w./$()+-]*( [\w./$()+-]+)*$/;
const wordRE = /^(y|n|yes|no|on|off|true|false|null)$/i;

function scalar(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return plainRE.test(value) && !wordRE.test(value) ? value : JSON.stringify(value);
}

/** isBlock tells texts that are written with their lines as they are. */
const isBlock = (value: unknown): value is string => typeof value === "string" && /^[^\s].*\n/.test(value) && !/[^\n\x20-\x7e\xa0-\u2027\u2030-\ud7ff]| (\n|$)|\n\n$/.test(value);

/** order begins with what people write first, in a definition and in a step. */
const order = ["package", "name", "version", "description", "labels", "seedEntity", "parameters", "config", "triggers", "acquire", "label"];
const rank = (key: string): number => (order.indexOf(key) + 1 || order.length + 1) + (key === "steps" ? 1 : key === "pipes" ? 2 : 0);

function lines(value: unknown): string[] {
  if (Array.isArray(value) && value.length > 0) {
    return value.flatMap((item) => {
      const [first = "", ...rest] = inline(item) === undefined ? lines(item) : [inline(item)!];
      return [`- ${first}`, ...rest.map((line) => `  ${line}`)];
    });
  }
  if (value !== null && typeof value === "object" && Object.keys(value).length > 0) {
    return Object.entries(value).sort(([a], [b]) => rank(a) - rank(b)).flatMap(([key, item]) => {
      const name = scalar(key);
      if (isBlock(item)) return [`${name}: ${item.endsWith("\n") ? "|" : "|-"}`, ...item.replace(/\n$/, "").split("\n").map((line) => (line ? `  ${line}` : ""))];
      const short = inline(item);
      return short === undefined ? [`${name}:`, ...lines(item).map((line) => `  ${line}`)] : [`${name}: ${short}`];
    });
  }
  return [scalar(value)];
}

/** inline is a value on one line, undefined for one that takes several. */
const inline = (value: unknown): string | undefined =>
  (value === null || typeof value !== "object" || Object.keys(value).length === 0 ? scalar(value) : undefined);

/** yaml writes a value so that reading it gives the same value. */
export const yaml = (value: unknown): string => `${lines(value).join("\n")}\n`;
