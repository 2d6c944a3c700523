// Builds the pages into ../page. What is built is the same byte for byte wherever it is built.
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const page = new URL("../page/", import.meta.url).pathname;
await build({
  entryPoints: { page: "src/main.tsx", answer: "src/answer.tsx" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: "/* The licences of what this file contains: /monitor/licences.txt */" },
  jsx: "automatic",
  jsxImportSource: "preact",
  outdir: page,
  logLevel: "warning",
});
for (const name of ["index.html", "answer.html", "page.css"]) await copyFile(`src/${name}`, page + name);

// What others have written comes with its licence.
const { dependencies } = JSON.parse(await readFile("package.json", "utf8"));
const licences = await Promise.all(Object.keys(dependencies).sort().map(async (name) => `${name} ${dependencies[name]}\n\n${await readFile(`node_modules/${name}/LICENSE`, "utf8")}`));
await writeFile(`${page}licences.txt`, licences.join("\n\n"));

// The pages are in every API function: they stay small.
let compressed = 0;
for (const name of ["index.html", "page.css", "page.js", "answer.html", "answer.js"]) compressed += gzipSync(await readFile(page + name)).length;
console.log(`pages: ${compressed} bytes compressed`);
if (compressed > 250_000) throw new Error("the pages are larger than 250 KB compressed");
