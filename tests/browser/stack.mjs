// A local stack, function blocks to play with, and a browser: what the tests of the monitor need.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import { chromium } from "playwright-core";

const root = new URL("../../", import.meta.url).pathname;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** findBrowser is the path of Chromium, or says what to install. */
export function findBrowser() {
  const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  const found = places.find((p) => p && existsSync(p));
  if (!found) throw new Error("there is no Chromium here: apt-get install chromium, or set CHROMIUM to its path");
  return found;
}

/** startStack starts `lockstep dev`, with more variables, and the blocks that behave as the parameters of their step say. */
export async function startStack(env = {}) {
  const refused = new Set();
  const blocks = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const call = JSON.parse(body);
    const { delay = 0, fail = [], failOnce = [], code = "REFUSED", message = "it does not want to", retryable = false, result = {} } = call.parameters ?? {};
    if (delay && call.operation === "EXECUTE") await new Promise((done) => setTimeout(done, delay));
    const subject = `${call.job.execution} ${call.entity?.id}`;
    const first = failOnce.includes(call.entity?.id) && !refused.has(subject);
    if (first) refused.add(subject);
    const refuses = first || fail.includes(call.entity?.id) && (call.operation === "EXECUTE" || call.parameters.failUndo);
    const logs = [{ level: refuses ? "ERROR" : "INFO", text: `${call.operation} of ${call.entity?.id}: ${message}` }];
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(refuses
      ? { outcome: "ERROR", error: { code, message, retryable, details: {} }, logs }
      : { outcome: "OK", result: { ...result, operation: call.operation }, logs }));
  });
  blocks.keepAliveTimeout = 600_000; // on a busy machine the service may use a connection just when it is closed as idle
  await new Promise((done) => blocks.listen(0, "127.0.0.1", done));

  const service = spawn(`${root}bin/lockstep`, ["dev", "--port", "0"], { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  service.stderr.on("data", (text) => { log = (log + text).slice(-4_000); });
  const url = await new Promise((ready, failed) => {
    let out = "";
    service.stdout.on("data", (text) => {
      out += text;
      const line = /^ready (\S+)/m.exec(out);
      if (line) ready(line[1]);
    });
    service.on("exit", (status) => failed(new Error(`lockstep dev ended with ${status}:\n${log}`)));
  });

  const call = async (method, path, body, headers = {}) => {
    const text = typeof body === "string" ? body : body === undefined ? undefined : JSON.stringify(body);
    const type = typeof body === "string" ? "application/yaml" : "application/json";
    const reply = await fetch(url + path, { method, body: text, headers: { "content-type": type, ...headers } });
    const answer = await reply.json();
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${JSON.stringify(answer)}`);
    return answer;
  };
  const block = (name, promises) => call("POST", "/function-blocks/register", {
    package: "test", name, version: "1.0.0", ...promises, http: { url: `http://127.0.0.1:${blocks.address().port}/`, timeout: "20s" },
  });
  await block("look", { pure: true, idempotent: true });
  await block("change", { reversible: true, idempotent: true });
  await block("burn", {});

  return {
    url,
    call,
    publish: (text) => call("POST", "/workflow-definition/publish", text),
    importEntities: (entities) => call("POST", "/entities/import", entities.map((e) => JSON.stringify(e)).join("\n"), { "content-type": "application/x-ndjson" }),
    start: async (workflow, ids, parameters = {}, more = {}) => (await call("POST", "/workflow-execution", {
      workflow, parameters, executeOnParameters: ids ? { ids } : undefined, ...more,
    })).id,
    /** until waits until the execution is as wanted. */
    until: async (id, wanted) => {
      for (let n = 0; n < 600; n++) {
        const x = await call("GET", `/workflow-execution/id/${id}`);
        if (wanted(x)) return x;
        await new Promise((done) => setTimeout(done, 100));
      }
      throw new Error(`the execution ${id} is not as wanted after a minute: ${JSON.stringify(await call("GET", `/workflow-execution/id/${id}`))}`);
    },
    stop: async () => {
      blocks.close();
      blocks.closeAllConnections();
      service.removeAllListeners("exit");
      const ended = new Promise((done) => service.on("exit", done));
      service.kill("SIGINT");
      await ended;
    },
  };
}

/** openBrowser opens a page that remembers everything that went wrong in it. */
export async function openBrowser(options = {}) {
  const browser = await chromium.launch({ executablePath: findBrowser(), args: ["--no-sandbox"] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: "en-GB", timezoneId: "UTC", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error" && !/Failed to load resource/.test(message.text())) faults.push(message.text()); });
  page.on("dialog", (dialog) => { faults.push(`a dialog of the browser: ${dialog.message()}`); void dialog.dismiss(); });
  const foreign = [];
  let home = "";
  page.on("request", (request) => { if (home && !request.url().startsWith(home)) foreign.push(request.url()); });
  return {
    browser,
    page,
    faults,
    foreign,
    open: async (url, hash) => {
      home = url;
      await page.goto(`${url}/${hash}`);
    },
    /** violations are those of axe-core's rules in what is shown, in light and in dark. */
    violations: async () => {
      await page.evaluate(axe);
      const found = [];
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        const report = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        found.push(...report.violations.map((v) => `${colorScheme}: ${v.id} (${v.impact}): ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`));
      }
      await page.emulateMedia({ colorScheme: null });
      return found;
    },
  };
}
