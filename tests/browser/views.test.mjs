// Locks, workers, blocks, definitions, entities, failures, the inbox, families and waves, in a real
// browser against a local stack.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, startStack } from "./stack.mjs";

let stack;
let browser;
let page;
const ids = Array.from({ length: 20 }, (_, n) => `sw-${String(n + 1).padStart(3, "0")}`);
const hostile = "<script>alert(1)</script>";

const work = (version, more = "") => `package: test
name: alter
version: ${version}
seedEntity: device
parameters:
  type: object
  required: [target]
  properties:
    target: {type: string, title: Target version, description: "${hostile}", pattern: "^[0-9.]+$"}
    window: {type: string, enum: [night, weekend]}
    delay: {type: integer, minimum: 0, default: 0}
    force: {type: boolean}
    fail: {type: array, items: {type: string}, default: []}
    options: {type: object}
steps:
  - {label: look, functionBlock: "test/look:1", runOn: device}
  - {label: change, functionBlock: "test/change:1", runOn: device, parameters: {delay: "\${has(parameters.delay) ? parameters.delay : 0}", fail: "\${has(parameters.fail) ? parameters.fail : []}", target: "\${parameters.target}"}}
${more}`;

before(async () => {
  stack = await startStack({ LOCKSTEP_OBSERVE_METRICS: "true" });
  await stack.importEntities(ids.map((id, n) => ({ type: "device", id, attributes: { site: n < 10 ? "lab" : "zrh", note: hostile }, groups: ["switches"] })));
  await stack.publish(work("1.0.0"));
  await stack.publish(work("1.1.0", '  - {label: verify, functionBlock: "test/look:1", runOn: device}\n'));
  await stack.publish(`package: test
name: ask
version: 1.0.0
description: "${hostile}"
seedEntity: device
steps:
  - label: approve
    wait: {approval: {title: "${hostile}", deadline: 1h}}
  - label: detail
    wait:
      input:
        title: Which slot?
        deadline: 1h
        schema: {type: object, required: [slot], properties: {slot: {type: integer, minimum: 1, maximum: 8}, note: {type: string}}}
  - {label: change, functionBlock: "test/change:1", runOn: device, parameters: {result: {note: "${hostile}", slot: "\${detail.result.slot}"}}}
`);
  await stack.publish(`package: test
name: look
version: 1.0.0
seedEntity: device
steps: [{label: look, functionBlock: "test/look:1", runOn: device}]
`);
  await stack.publish(`package: test
name: parent
version: 1.0.0
seedEntity: device
steps:
  - {label: start, workflowReference: {workflow: "test/look:1", mode: dispatch, executeOnParameters: {ids: [sw-010]}}}
  - {label: look, functionBlock: "test/look:1", runOn: device}
`);
  await stack.publish(`package: test
name: waves
version: 1.0.0
seedEntity: device
steps:
  - label: everywhere
    rollout: {by: entity.site, order: [lab, zrh], onFailure: stop}
    workflow: {steps: [{label: look, functionBlock: "test/look:1", runOn: device}]}
`);
  browser = await openBrowser();
  page = browser.page;
});

after(async () => {
  await browser?.browser.close();
  await stack?.stop();
});

async function show(hash, heading) {
  await browser.open(stack.url, hash);
  await page.getByRole("heading", { name: heading }).first().waitFor();
  await page.getByText("Loading", { exact: true }).first().waitFor({ state: "detached" });
}

async function clean() {
  assert.deepEqual(await browser.violations(), []);
  assert.deepEqual(browser.faults, []);
  assert.deepEqual(browser.foreign, []);
}

test("locks: who holds what and who waits for whom", async () => {
  await show("#/locks", "Locks");
  await page.getByText("There are no locks.").waitFor();
  const holder = await stack.start("test/alter", ["sw-001", "sw-002"], { target: "1", delay: 12000 });
  await stack.until(holder, (x) => x.currentStep === "change");
  const waiter = await stack.start("test/alter", ["sw-002"], { target: "2" });
  await stack.until(waiter, (x) => x.waiting?.kind === "LOCK");
  await page.getByText(`${waiter} waits for ${holder}: device/sw-002`).waitFor();
  assert.equal(await page.locator("svg.waits path.edge").count(), 1);
  const row = page.getByRole("table", { name: "Locks" }).getByRole("row").filter({ hasText: "device/sw-002" });
  assert.match(await row.innerText(), new RegExp(`${holder}.*exclusive.*${waiter}.*1$`, "s"));
  await clean();

  await row.getByRole("link", { name: "device/sw-002" }).click();
  await page.getByText(`Held by ${holder}`).waitFor();
  await page.getByText(`${waiter} waits for it`).waitFor();
  await page.getByRole("region", { name: "Attributes" }).getByText(hostile).waitFor();
  await clean();

  await show("#/start/test/alter/1.1.0", "Start test/alter:1.1.0");
  await page.getByLabel("Target version (required)").fill("3");
  await page.getByLabel("Ids (device)").fill("sw-002 sw-003");
  await page.getByRole("button", { name: "Plan" }).click();
  const plan = page.getByRole("region", { name: "Plan", exact: true });
  await plan.getByText("1 of them are locked now").waitFor();
  await plan.getByRole("listitem").filter({ hasText: "device/sw-002" }).getByRole("link", { name: holder }).waitFor();
  await clean();
  await show("#/entities/device/sw-002", "device/sw-002");
  await stack.call("POST", `/workflow-execution/${holder}/cancel`, { reason: "enough" });
  await stack.until(waiter, (x) => x.state === "COMPLETED_ACK");
  await page.reload();
  await page.getByText("Nobody holds it.").waitFor();
  await page.getByRole("row").filter({ hasText: waiter }).getByText("SUCCEEDED").waitFor();
});

test("workers and blocks", async () => {
  await show("#/workers", "Workers");
  await page.getByRole("table", { name: "Pools" }).getByRole("cell", { name: "default" }).waitFor();
  await stack.call("POST", "/workers/register", { id: "press-1", pool: "print", blocks: ["test/look:1.0.0"], version: "7" });
  await page.reload();
  const row = page.getByRole("table", { name: "Workers" }).getByRole("row").filter({ hasText: "press-1" });
  await row.waitFor();
  assert.match(await row.innerText(), /REGISTERED|ONLINE/);
  assert.match(await row.innerText(), /print/);
  await clean();
  await show("#/blocks", "Function blocks");
  assert.match(await page.getByRole("row").filter({ hasText: "test/change:1.0.0" }).innerText(), /idempotent, reversible.*default.*127\.0\.0\.1/s);
  assert.match(await page.getByRole("row").filter({ hasText: "test/burn:1.0.0" }).innerText(), /a failure after it is unsafe/);
  await page.getByRole("link", { name: "test/look:1.0.0" }).click();
  await page.getByRole("article").getByRole("cell", { name: "press-1" }).waitFor();
  await clean();
});

test("definitions: versions, source and difference", async () => {
  await show("#/definitions", "Definitions");
  await page.getByRole("link", { name: "test/alter", exact: true }).first().click();
  await page.getByRole("heading", { name: "test/alter" }).waitFor();
  await page.getByRole("link", { name: "1.1.0" }).click();
  await page.getByRole("region", { name: "Source" }).getByText("label: verify").waitFor();
  await clean();
  await page.getByLabel("Difference to version").selectOption("1.0.0");
  const changes = page.getByRole("region", { name: "Difference" });
  await changes.locator("ins").filter({ hasText: "label: verify" }).waitFor();
  assert.equal(await changes.locator("del").filter({ hasText: '"1.0.0"' }).count(), 1);
  assert.match(page.url(), /against=1\.0\.0/);
  await clean();
});

test("the source of a definition is YAML that means the same, whatever it says", async () => {
  const texts = ["", " ", "plain text", "yes", "Null", "~", "1e3", "0x1f", "1.0.0", "2026-01-31", "- a", "a: b", "a #b", "# a", "'", "\"", "\\", "{a}", "[a]", "&a", "*a", "!a", "|", ">", "%a", "@a", "`", ", a", "? a", " a", "a ", "\ta", "a\tb",
    "a\nb", "a\nb\n", "a\n\n  b\n# c\n---\n", "a\n\n", "\na", "a\r\nb", "é ü", "\u{1f600}", "\u2028", "a\u0085b\nc", "\ufeffa\nb", hostile];
  const all = { texts, keys: Object.fromEntries(texts.map((text, n) => [text, n])), empty: [{}, [], [[], {}], null, true, 1.5, -1e-7], deep: [[["a", { b: ["c", { d: texts[35] }] }]], { e: { f: [] } }] };
  const published = await stack.publish(JSON.stringify({ package: "test", name: "texts", version: "1.0.0", description: texts[35], steps: [{ label: "note", set: { all } }] }));
  await show("#/definitions/test/texts/1.0.0", "test/texts:1.0.0");
  const text = await page.getByRole("region", { name: "Source" }).evaluate((region) => region.textContent);
  assert.match(text, /^package: test\nname: texts\nversion: "1.0.0"\ndescription: \|\n  a\n/);
  const again = await stack.call("POST", "/workflow-definition/publish?dryRun=true", text);
  assert.equal(again.digest, published.digest, text);
});

test("a definition is published with its issues at their lines", async () => {
  await show("#/definitions/publish", "Publish a definition");
  const text = work("2.0.0").replace("label: change", "label: look");
  await page.getByLabel("Definition, as YAML or JSON").fill(text);
  await page.getByRole("button", { name: "Check" }).click();
  const line = text.split("\n").findIndex((l) => l.includes("test/change")) + 1;
  await page.getByRole("button", { name: `line ${line}` }).first().click();
  assert.equal(await page.evaluate(() => {
    const area = document.querySelector("textarea");
    return area.value.slice(area.selectionStart, area.selectionEnd).includes("test/change");
  }), true, "the line is selected");
  assert.equal(await page.locator(".gutter .issue").first().innerText(), String(line));
  await clean();
  await page.getByLabel("Definition, as YAML or JSON").fill(work("2.0.0"));
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText("It is valid").waitFor();
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByText("It is published").getByRole("link", { name: "test/alter:2.0.0" }).click();
  await page.getByText("Published on").waitFor();
});

test("an execution is planned and started through a form made from the schema", async () => {
  await show("#/start/test/alter/1.1.0", "Start test/alter:1.1.0");
  await page.getByText(hostile).waitFor();
  const start = page.getByRole("button", { name: "Start" });
  assert.equal(await start.isDisabled(), true, "nothing is started before its plan was seen");
  await page.getByLabel("Target version (required)").fill("abc");
  await page.getByLabel("window").selectOption("night");
  await page.getByLabel("delay").fill("3");
  await page.getByLabel("force").selectOption("yes");
  await page.getByLabel("options, as JSON").fill("{");
  assert.equal(await page.getByRole("button", { name: "Plan" }).isDisabled(), true, "what is no JSON cannot be sent");
  await page.getByLabel("options, as JSON").fill('{"a": [1]}');
  await page.getByLabel("Ids (device)").fill("sw-004 sw-005");
  await page.getByLabel("Labels").fill("change=CHG-9");
  await page.getByRole("button", { name: "Plan" }).click();
  await page.getByRole("alert").getByText("Correct what is listed").waitFor();
  await page.getByLabel("Target version (required)").fill("17.9");
  await page.getByRole("button", { name: "Plan" }).click();
  const plan = page.getByRole("region", { name: "Plan", exact: true });
  await plan.getByText("2 entities: 2 device").waitFor();
  assert.match(await plan.getByRole("table", { name: "Steps of the plan" }).innerText(), /look.*pure.*change.*reversible.*rolled back/is);
  await plan.getByText(/\$0\.\d+ in all/).waitFor();
  await clean();
  await start.click();
  await page.waitForURL(/#\/executions\//);
  const id = page.url().split("/").at(-1);
  const x = await stack.until(id, (x) => x.state === "COMPLETED_ACK");
  assert.deepEqual(x.parameters, { target: "17.9", window: "night", delay: 3, force: true, fail: [], options: { a: [1] } });
  assert.deepEqual([x.labels, x.entities], [{ change: "CHG-9" }, { device: 2 }]);
});

test("failures of the last days, with a later success", async () => {
  const failed = await stack.start("test/alter", ["sw-006", "sw-007"], { target: "1", fail: ["sw-007"] });
  await stack.until(failed, (x) => x.state === "FAILED_SAFE_ACK");
  await show("#/failures", "Failures of the last 7 days");
  const row = page.getByRole("row").filter({ hasText: "device/sw-007" }).filter({ hasText: failed });
  await row.waitFor();
  assert.match(await row.innerText(), /FAILED_SAFE\s+no\s+change\s+REFUSED/);
  await clean();
  const good = await stack.start("test/alter", ["sw-007"], { target: "1" });
  await stack.until(good, (x) => x.state === "COMPLETED_ACK");
  await page.reload();
  await row.getByText(`yes, in ${good}`).waitFor();
  await show("#/entities?type=device&query=entity.site%20%3D%3D%20%22zrh%22", "Entities");
  await page.getByRole("link", { name: "device/sw-020" }).waitFor();
  assert.equal(await page.getByRole("link", { name: "device/sw-001" }).count(), 0);
  await clean();
});

test("the inbox asks, and answers go to their steps", async () => {
  const id = await stack.start("test/ask", ["sw-008"]);
  await stack.until(id, (x) => x.waiting?.kind === "INPUT");
  await show("#/inbox", "Inbox");
  const consent = page.getByRole("article", { name: hostile });
  await consent.getByLabel("Approve (required)").selectOption("yes");
  await consent.getByLabel("Note").fill("go on");
  await clean();
  await consent.getByRole("button", { name: "Answer" }).click();
  const slot = page.getByRole("article", { name: "Which slot?" });
  await slot.getByLabel("slot (required)").fill("4");
  await clean();
  await slot.getByRole("button", { name: "Answer" }).click();
  await page.getByText("Nothing waits for an answer.").waitFor();
  const x = await stack.until(id, (x) => x.state === "COMPLETED_ACK");
  const { steps } = await stack.call("GET", `/workflow-execution/id/${id}/result`);
  assert.equal(steps.change.results["sw-008"].slot, 4);
  assert.equal(x.outcome, "SUCCEEDED");
  await show(`#/executions/${id}/result`, "Result");
  await page.locator("summary").filter({ hasText: "change" }).click();
  await page.getByRole("region", { name: "Result of change" }).getByText(hostile).waitFor();
  await show("#/definitions/test/ask/1.0.0", "test/ask:1.0.0");
  await page.getByRole("region", { name: "Source" }).getByText(hostile).first().waitFor();
  assert.equal(await page.locator("main script").count(), 0);
  await clean();
});

test("the family of an execution is a tree", async () => {
  const parent = await stack.start("test/parent", ["sw-009"]);
  await stack.until(parent, (x) => x.endedAt !== null && x.children.length === 1);
  const { children: [child] } = await stack.call("GET", `/workflow-execution/id/${parent}`);
  for (const id of [parent, child]) {
    await show(`#/executions/${id}/family`, "Family");
    await page.locator(".tree").getByRole("link", { name: id === parent ? child : parent }).waitFor();
    await page.locator(".tree").getByText("(this one)").waitFor();
  }
  await clean();
});

test("a rollout has one row a wave", async () => {
  const id = await stack.start("test/waves", ids);
  await stack.until(id, (x) => x.state === "COMPLETED_ACK");
  await show(`#/executions/${id}`, /test\/waves/);
  const waves = page.getByRole("table", { name: "Waves of everywhere" });
  await waves.waitFor();
  assert.match(await waves.innerText(), /1\s+lab\s+COMPLETED\s+10\s+10\s+10\s+0\s+2\s+zrh\s+COMPLETED\s+10\s+10\s+10\s+0/);
  await clean();
});

test("how executions end is counted by workflow", async () => {
  await show("#/metrics", "How executions end");
  const row = page.getByRole("table", { name: "Ends by workflow" }).getByRole("row").filter({ hasText: "test/waves" });
  await row.waitFor();
  assert.match(await row.innerText(), /test\/waves\S*\s+1\s+1\s+0\s+0\s+0\s/);
  await page.getByLabel("Days").selectOption("30");
  await page.waitForURL(/days=30/);
  await row.waitFor();
  await clean();
});

test("keys lead to every view", async () => {
  await show("", "Executions");
  for (const [key, title] of [["i", "Inbox"], ["f", /^Failures/], ["e", "Entities"], ["l", "Locks"], ["w", "Workers"], ["b", "Function blocks"], ["m", "How executions end"], ["d", "Definitions"], ["x", "Executions"]]) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await page.getByRole("heading", { name: title }).first().waitFor();
  }
  await show("#/nowhere", "Not found");
  await clean();
});
