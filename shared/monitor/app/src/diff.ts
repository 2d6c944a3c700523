// The difference between two texts, line by line.
export interface Line {
  sign: " " | "+" | "-";
  text: string;
}

/** diff keeps the longest common sequence of lines. */
export function diff(before: string, after: string): Line[] {
  const [a, b] = [before.split("\n"), after.split("\n")];
  const wide = b.length + 1;
  const length = new Uint32Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      length[i * wide + j] = a[i] === b[j] ? length[(i + 1) * wide + j + 1]! + 1 : Math.max(length[(i + 1) * wide + j]!, length[i * wide + j + 1]!);
    }
  }
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ sign: " ", text: a[i++]! });
      j++;
    } else if (j >= b.length || (i < a.length && length[(i + 1) * wide + j]! >= length[i * wide + j + 1]!)) {
      lines.push({ sign: "-", text: a[i++]! });
    } else {
      lines.push({ sign: "+", text: b[j++]! });
    }
  }
  return lines;
}
