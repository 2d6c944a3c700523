// The list of executions and one execution, in a real browser against a local stack.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, startStack } from "./stack.mjs";

let stack;
let browser;
let page;
const ids = Array.from({ length: 40 }, (_, n) => `sw-${String(n + 1).padStart(3, "0")}`);
const hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>";

before(async () => {
  stack = await startStack();
  await stack.importEntities(ids.map((id) => ({ type: "device", id, attributes: { site: id < "sw-020" ? "lab" : "zrh" } })));
  for (const [name, block] of [["look", "look"], ["change", "change"], ["burn", "burn"]]) {
    await stack.publish(`package: test
name: ${name}
version: 1.0.0
seedEntity: device
parameters: {type: object, properties: {fail: {type: array}, delay: {type: integer}, message: {type: string}, result: {type: object}, failUndo: {type: boolean}}}
config: {failureTolerance: 0}
steps:
  - label: first
    functionBlock: test/look:1
    runOn: device
  - label: work
    functionBlock: test/${block}:1
    runOn: device
    parameters:
      fail: "\${has(parameters.fail) ? parameters.fail : []}"
      delay: "\${has(parameters.delay) ? parameters.delay : 0}"
      message: "\${has(parameters.message) ? parameters.message : 'it does not want to'}"
      result: "\${has(parameters.result) ? parameters.result : {}}"
      failUndo: "\${has(parameters.failUndo) && parameters.failUndo}"
`);
  }
  browser = await openBrowser();
  page = browser.page;
});

after(async () => {
  await browser?.browser.close();
  await stack?.stop();
});

/** show opens a view and waits until it has been read. */
async function show(hash, heading) {
  await browser.open(stack.url, hash);
  await page.getByRole("heading", { name: heading }).first().waitFor();
  await page.getByText("Loading").waitFor({ state: "detached" });
}

/** clean is that nothing went wrong in the page, and that axe-core finds nothing. */
async function clean() {
  assert.deepEqual(await browser.violations(), []);
  assert.deepEqual(browser.faults, []);
  assert.deepEqual(browser.foreign, []);
}

test("the list shows executions, and filters find some of them", async () => {
  const whole = await stack.start("test/look", ids.slice(0, 3), {}, { labels: { change: "CHG-7" } });
  const failed = await stack.start("test/change", ids.slice(5, 8), { fail: ["sw-007"] });
  await stack.until(whole, (x) => x.state === "COMPLETED_ACK");
  await stack.until(failed, (x) => x.state === "FAILED_SAFE_ACK");
  await show("", "Executions");
  const row = page.getByRole("row").filter({ hasText: whole });
  await row.waitFor();
  assert.match(await row.innerText(), /test\/look:1\.0\.0.*COMPLETED_ACK.*SUCCEEDED.*6\/6.*change=CHG-7/s);
  assert.match(await page.getByRole("row").filter({ hasText: failed }).innerText(), /FAILED_SAFE_ACK/);
  await clean();

  await page.getByLabel("Outcome").selectOption("FAILED_SAFE");
  await row.waitFor({ state: "detached" });
  await page.getByRole("row").filter({ hasText: failed }).waitFor();
  assert.match(page.url(), /#\/executions\?outcome=FAILED_SAFE$/);

  await page.getByRole("link", { name: "Clear" }).click();
  await page.getByLabel("Label").fill("change=CHG-7");
  await page.keyboard.press("Enter");
  await page.getByRole("row").filter({ hasText: failed }).waitFor({ state: "detached" });
  await row.waitFor();

  await page.getByRole("link", { name: "Clear" }).click();
  await page.getByLabel("Status").selectOption("FAILED");
  await row.waitFor({ state: "detached" });
  await page.getByRole("row").filter({ hasText: failed }).waitFor();
  await page.getByRole("link", { name: "Clear" }).click();
  await page.getByLabel("State", { exact: true }).selectOption("COMPLETED_ACK");
  await page.getByRole("row").filter({ hasText: failed }).waitFor({ state: "detached" });
  await row.waitFor();

  await show("#/executions?workflow=test%2Flook&createdAfter=2020-01-01T00%3A00", "Executions");
  await row.waitFor();
  assert.equal(await page.getByRole("row").filter({ hasText: failed }).count(), 0);
  await show("#/executions?createdAfter=2099-01-01T00%3A00", "Executions");
  await page.getByText("There are no such executions.").waitFor();
});

test("what has not changed is not sent again, and what has is shown", async () => {
  const id = await stack.start("test/look", ids.slice(20, 22));
  await show(`#/executions/${id}`, "test/look");
  const own = (reply) => reply.url().endsWith(`/workflow-execution/id/${id}`);
  await stack.until(id, (x) => x.state === "COMPLETED_ACK");
  await page.getByText("COMPLETED_ACK").first().waitFor();
  await show("", "Executions");
  await show(`#/executions/${id}`, "test/look");
  const unchanged = await page.waitForResponse((reply) => own(reply) && reply.status() === 304);
  assert.match((await unchanged.request().allHeaders())["if-none-match"], /^W\//);
  await page.getByText("COMPLETED_ACK").first().waitFor();
  // The moves that it made have their times in the drawing.
  const { items } = await stack.call("GET", `/workflow-execution/id/${id}/history?limit=1000`);
  const began = items.find((e) => e.layer === "execution" && e.to === "RUNNING").at.slice(11, 19);
  await page.locator("svg.machine text.at").filter({ hasText: began }).first().waitFor();
  assert.equal(await page.locator("svg.machine .state.lit").getAttribute("data-state"), "COMPLETED_ACK");
  await clean();
});

test("the list is filtered by key and by what is waited for, and has the oldest first", async () => {
  const first = await stack.start("test/look", ["sw-038"], {}, { labels: { order: "seven" } });
  await stack.until(first, (x) => x.state === "COMPLETED_ACK");
  const held = await stack.start("test/look", ["sw-039"], {}, { hold: true, key: "order-7", labels: { order: "seven" } });
  await stack.until(held, (x) => x.waiting?.kind === "HOLD");
  const rows = () => page.locator("tbody tr td:first-child").allInnerTexts();
  const lists = async (ids) => page.waitForFunction((wanted) => [...document.querySelectorAll("tbody tr td:first-child")].map((c) => c.textContent).join() === wanted, ids.join());
  await show("#/executions?label=order%3Dseven", "Executions");
  await lists([held, first]);
  const created = page.getByRole("columnheader", { name: "Created" });
  assert.equal(await created.getAttribute("aria-sort"), "descending");
  await created.getByRole("button").click();
  await lists([first, held]);
  assert.match(page.url(), /sort=createdAt%3Aasc/);
  assert.equal(await created.getAttribute("aria-sort"), "ascending");
  await clean();
  await page.getByLabel("Waits for").selectOption("HOLD");
  await lists([held]);
  await page.getByRole("link", { name: "Clear" }).click();
  await page.getByLabel("Key", { exact: true }).fill("order-7");
  await page.keyboard.press("Enter");
  await lists([held]);
  assert.equal((await rows()).length, 1);
  await page.getByLabel("Region").fill("nowhere");
  await page.keyboard.press("Enter");
  await page.getByText("There are no such executions.").waitFor();
  await stack.call("POST", `/workflow-execution/${held}/cancel`, { reason: "enough" });
});

test("a signal is sent by a form, which says what is waited for", async () => {
  await stack.publish(`package: test
name: listens
version: 1.0.0
steps:
  - label: pay
    wait: {signal: {name: paid, schema: {type: object, required: [amount], properties: {amount: {type: integer}}}, deadline: 10m}}
`);
  const id = await stack.start("test/listens");
  await stack.until(id, (x) => x.waiting?.kind === "SIGNAL");
  await show(`#/executions/${id}`, /test\/listens/);
  await page.getByRole("button", { name: "Signal" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("The step pay waits for the signal paid").waitFor();
  assert.equal(await dialog.getByLabel("Signal").inputValue(), "paid");
  await clean();
  await dialog.getByLabel("Data").fill("{amount: 12}");
  await dialog.getByLabel("Reason").fill("seen in the bank");
  await dialog.getByRole("button", { name: "Signal" }).click();
  await dialog.getByRole("alert").getByText("is not JSON").waitFor();
  await dialog.getByLabel("Data").fill('{"amount": 12}');
  await dialog.getByRole("button", { name: "Signal" }).click();
  await stack.until(id, (x) => x.state === "COMPLETED_ACK");
  await page.locator(".state.lit[data-state=COMPLETED_ACK]").waitFor();
  assert.equal(await page.getByRole("button", { name: "Signal" }).count(), 0);
});

test("the list goes on page by page", async () => {
  const many = await Promise.all(Array.from({ length: 55 }, () => stack.start("test/look", ["sw-040"], {}, { labels: { many: "yes" } })));
  for (const id of many) await stack.until(id, (x) => x.state === "COMPLETED_ACK"); // what moves from state to state may be missing on a page
  await show("#/executions?label=many%3Dyes", "Executions");
  await page.getByRole("link", { name: "next page" }).click();
  await page.getByRole("link", { name: "first page" }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 5);
  assert.match(page.url(), /page=/);
});

test("an execution is seen moving, without a reload", async () => {
  const id = await stack.start("test/change", ids.slice(10, 14), { delay: 4000 });
  await show(`#/executions/${id}`, /test\/change:1\.0\.0/);
  await page.evaluate(() => { window.neverLoadedAgain = true; });
  await page.locator(".state.lit[data-state=RUNNING]").waitFor();
  await page.locator(".state.lit[data-state=COMPLETED_ACK]").waitFor();
  await page.getByText("8 of 8 jobs completed").waitFor();
  assert.equal(await page.evaluate(() => window.neverLoadedAgain), true);
  assert.equal(await page.locator(".edge.taken").count() > 7, true, "the moves that it made are drawn");
  for (const step of ["first", "work"]) await page.getByRole("table", { name: "Steps" }).getByRole("row").filter({ hasText: step }).getByText("COMPLETED", { exact: true }).waitFor();
  await page.getByText("4 completed", { exact: false }).first().waitFor();
  await clean();
});

test("the map leads to the jobs of an entity", async () => {
  const id = await stack.start("test/burn", ids.slice(20, 30), { fail: ["sw-025"], message: "no power" });
  await stack.until(id, (x) => x.state === "FAILED_UNSAFE");
  await show(`#/executions/${id}`, /test\/burn/);
  const map = page.locator("#map canvas[data-painted='10']");
  await map.waitFor();
  assert.match(await map.getAttribute("aria-label"), /10 entities: .*1 failed/);
  await page.getByRole("button", { name: "1 failed" }).click();
  await page.getByRole("region", { name: "Entities: failed" }).getByRole("link", { name: "device/sw-025" }).waitFor();
  await clean();
  await map.click({ position: { x: 2, y: 2 } });
  await page.waitForURL(/jobs\?entity=device%2Fsw-021/);
  await page.getByRole("table", { name: "Jobs" }).getByRole("link", { name: "device/sw-021" }).first().click();
  const job = page.getByRole("article", { name: "Job" });
  assert.match(await job.innerText(), /Worker.*Lock token\s+\d+.*Outcome\s+OK/s);
  await clean();
});

test("the jobs that failed are the same on the page, by the API and by the command", async () => {
  await stack.publish(`package: test
name: again
version: 1.0.0
seedEntity: device
config: {failureTolerance: "100%"}
steps:
  - {label: work, functionBlock: "test/look:1", runOn: device, retry: {maxRetries: 1, delay: 1s}, parameters: {failOnce: [sw-011], fail: [sw-012], retryable: true}}
`);
  const id = await stack.start("test/again", ["sw-011", "sw-012"]);
  await stack.until(id, (x) => x.outcome === "PARTIAL");
  await show(`#/executions/${id}`, /test\/again/);
  assert.match(await page.getByRole("table", { name: "Steps that failed" }).getByRole("row").last().innerText(), /work\s+1\s+failureTolerance allows so many\s+REFUSED/);
  const jobs = async (query) => (await stack.call("GET", `/workflow-execution/id/${id}/jobs?${query}`)).items;
  const failed = await jobs("state=FAILED");
  assert.deepEqual(failed.map((j) => [j.entity.id, j.attempt, j.replacedBy]), [["sw-011", 1, `${id}.1.0.2`], ["sw-012", 1, `${id}.1.1.2`], ["sw-012", 2, null]]);
  assert.deepEqual(await jobs("failed=true"), failed.slice(2));
  const rows = () => page.getByRole("table", { name: "Jobs" }).getByRole("row").filter({ hasText: "FAILED" });
  for (const query of ["state=FAILED", "failed=true"]) {
    await show(`#/executions/${id}/jobs?${query}`, "Jobs");
    await page.getByText("1 jobs", { exact: true }).waitFor();
    assert.match(await rows().first().innerText(), /sw-012.*FAILED\s+(ERROR)?\s*2\s/s);
  }
  await page.getByLabel("Attempts").selectOption("all");
  await show(`#/executions/${id}/jobs?state=FAILED&attempts=all`, "Jobs");
  await page.getByText("3 jobs", { exact: true }).waitFor();
  await page.getByRole("table", { name: "Jobs" }).getByRole("link", { name: "device/sw-011" }).click();
  await page.getByRole("article", { name: "Job" }).getByRole("link", { name: "the next one" }).click();
  await page.getByRole("article", { name: "Job" }).getByText("COMPLETED").waitFor();
  await clean();
});

test("a job shows its error; the history and the cost of an execution are shown", async () => {
  const { items } = await stack.call("GET", "/workflow-execution?outcome=FAILED_UNSAFE");
  const id = items[0].id;
  await show(`#/executions/${id}/jobs?state=FAILED`, "Jobs");
  await page.getByRole("table", { name: "Jobs" }).getByRole("link", { name: "device/sw-025" }).first().click();
  await page.getByRole("article", { name: "Job" }).getByText("REFUSED no power").waitFor();
  await page.getByRole("list", { name: "Log of the job" }).getByText("EXECUTE of sw-025: no power").waitFor();
  await show(`#/executions/${id}/history`, "History");
  const history = page.getByRole("table", { name: "History" });
  await history.evaluate((table) => table.scrollTo(0, table.scrollHeight));
  const end = history.getByRole("row").filter({ hasText: "execution.failed_unsafe" });
  await clean();
  await end.getByRole("link", { name: /^{/ }).click();
  await page.getByRole("article", { name: "Event" }).getByRole("heading", { name: /^execution.failed_unsafe, number \d+$/ }).waitFor();
  await clean();
  await show(`#/executions/${id}/cost`, "Cost");
  await page.getByText(/\$0\.\d+ in all/).waitFor();
  await clean();
});

test("only the verbs that the state allows are offered, each says what it does and asks for a reason", async () => {
  const { items } = await stack.call("GET", "/workflow-execution?outcome=FAILED_UNSAFE");
  const id = items[0].id;
  await show(`#/executions/${id}`, /test\/burn/);
  const offered = () => page.locator(".verbs [data-verb]").evaluateAll((all) => all.map((b) => b.dataset.verb));
  assert.deepEqual(await offered(), ["retry", "acknowledge", "unlock", "rerun"]);
  await page.getByRole("button", { name: "Acknowledge" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(/their locks are released/i).waitFor();
  assert.deepEqual(await browser.violations(), []);
  await dialog.getByRole("button", { name: "Acknowledge" }).click();
  assert.equal(await dialog.count(), 1, "nothing is sent without a reason");
  await dialog.getByLabel("Reason").fill("looked at all of them");
  await dialog.getByLabel("Only these entities").fill("device/none");
  await dialog.getByRole("button", { name: "Acknowledge" }).click();
  await dialog.getByRole("alert").getByText("Correct what is listed").waitFor();
  await dialog.getByLabel("Only these entities").fill("");
  await dialog.getByRole("button", { name: "Acknowledge" }).click();
  await page.getByText("Acknowledged by local").waitFor();
  assert.equal((await stack.call("GET", `/workflow-execution/id/${id}`)).acknowledged.reason, "looked at all of them");
  assert.deepEqual(await offered(), ["retry", "rerun"]);
});

test("a waiting execution says who holds its locks; a cancel ends the holder", async () => {
  const holder = await stack.start("test/change", ["sw-031"], { delay: 15000 });
  await stack.until(holder, (x) => x.currentStep === "work");
  const waiter = await stack.start("test/look", ["sw-031"]);
  await stack.until(waiter, (x) => x.waiting?.kind === "LOCK");
  await show(`#/executions/${waiter}`, /test\/look/);
  await page.getByText("Waits for locks").waitFor();
  await clean();
  await page.locator(".standing").getByRole("link", { name: holder }).click();
  await page.getByRole("heading", { name: /test\/change/ }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill("wrong window");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await page.getByText(/Cancelled by local \(user\): wrong window/).waitFor();
  await stack.until(waiter, (x) => x.state === "COMPLETED_ACK");
});

test("retry and run again lead on", async () => {
  const id = await stack.start("test/change", ["sw-033", "sw-034"], { fail: ["sw-034"] });
  await stack.until(id, (x) => x.state === "FAILED_SAFE_ACK");
  await show(`#/executions/${id}`, /test\/change/);
  await page.getByRole("button", { name: "Retry" }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill("power is back");
  await page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
  await page.getByText("try 2").waitFor();
  await stack.until(id, (x) => x.state === "FAILED_SAFE_ACK" && x.try === 2);
  await page.locator(".state.lit[data-state=FAILED_SAFE_ACK]").waitFor();
  await page.getByRole("button", { name: "Run again" }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill("once more");
  await page.getByRole("dialog").getByRole("button", { name: "Run again" }).click();
  await page.waitForURL((url) => url.hash.startsWith("#/executions/") && !url.hash.includes(id));
  await page.getByText("runs again entities of").waitFor();
});

test("a rollback that has failed is told, and tried again", async () => {
  const id = await stack.start("test/change", ["sw-031", "sw-032"], { fail: ["sw-032"], failUndo: true });
  await stack.until(id, (x) => x.state === "FAILED_UNSAFE");
  await show(`#/executions/${id}`, /test\/change/);
  await page.getByText(/Not undone: step work/).waitFor();
  await page.getByRole("button", { name: "Roll back again" }).click();
  await page.getByRole("dialog").getByText("executes nothing else").waitFor();
  await page.getByRole("dialog").getByLabel("Reason").fill("power is back");
  await page.getByRole("dialog").getByRole("button", { name: "Roll back again" }).click();
  await page.getByText("try 2").waitFor();
  const x = await stack.until(id, (x) => x.state === "FAILED_UNSAFE" && x.try === 2);
  assert.equal(x.failedRollback.step, "work");
  await page.getByRole("button", { name: "Acknowledge" }).waitFor();
  await clean();
});

test("an execution names those that it has started and that wait to be acknowledged", async () => {
  await stack.publish(`package: test
name: sites
version: 1.0.0
steps:
  - label: sites
    foreach: {items: "\${['sw-039', 'sw-040']}", failureTolerance: 100%}
    workflowReference: {workflow: "test/burn:1", mode: dispatch, executeOnParameters: {type: device, ids: ["\${item}"]}}
    parameters: {fail: ["sw-040"]}
`);
  const id = await stack.start("test/sites", undefined, {});
  const { unacknowledged } = await stack.until(id, (x) => x.endedAt && x.unacknowledged.length > 0);
  assert.deepEqual(unacknowledged.map((c) => [c.step, c.item, c.itemText, c.state]), [["sites", 1, "sw-040", "FAILED_UNSAFE"]]);
  await show(`#/executions/${id}`, /test\/sites/);
  const named = page.locator(".standing p").filter({ hasText: "To be acknowledged:" });
  assert.match(await named.innerText(), /of step sites, item 1 \(sw-040\), which ended FAILED_UNSAFE/);
  await clean();
  await named.getByRole("link").first().click();
  await page.waitForURL(new RegExp(unacknowledged[0].id));
  await stack.call("POST", `/workflow-execution/${unacknowledged[0].id}/acknowledge`, { reason: "seen" });
});

test("the map shows the last try of an entity", async () => {
  await stack.publish(`package: test
name: flaky
version: 1.0.0
seedEntity: device
steps:
  - {label: look, functionBlock: "test/look:1", runOn: device, parameters: {failOnce: [sw-016]}}
`);
  const id = await stack.start("test/flaky", ["sw-015", "sw-016"]);
  await stack.until(id, (x) => x.state === "FAILED_SAFE_ACK");
  await show(`#/executions/${id}`, /test\/flaky/);
  await page.getByRole("button", { name: "1 failed" }).waitFor();
  await stack.call("POST", `/workflow-execution/${id}/retry`, { reason: "once more" });
  await stack.until(id, (x) => x.state === "COMPLETED_ACK");
  await page.locator(".state.lit[data-state=COMPLETED_ACK]").waitFor();
  await page.getByRole("button", { name: "2 completed" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "1 failed" }).count(), 0);
});

test("what is over is read seldom, and its jobs are read once", async () => {
  const id = await stack.start("test/look", ["sw-017"]);
  await stack.until(id, (x) => x.state === "COMPLETED_ACK");
  const other = await openBrowser();
  try {
    await other.page.clock.install();
    let [details, jobs] = [0, 0];
    other.page.on("request", (request) => {
      const { pathname } = new URL(request.url());
      if (pathname.endsWith(`/id/${id}`)) details++;
      if (pathname.endsWith("/jobs")) jobs++;
    });
    await other.open(stack.url, `#/executions/${id}`);
    await other.page.getByRole("button", { name: "1 completed" }).waitFor();
    for (let seconds = 0; seconds < 60; seconds += 2) { // of the page's clock
      await other.page.clock.runFor(2_000);
      await other.page.waitForLoadState("networkidle");
    }
    assert.equal(details > 2 && details < 15, true, `${details} requests in a minute`);
    assert.equal(jobs, 1);
  } finally {
    await other.browser.close();
  }
});

test("a page that nobody sees reads nothing", async () => {
  const other = await openBrowser();
  try {
    await other.page.clock.install();
    let requests = 0;
    other.page.on("request", (request) => { if (new URL(request.url()).pathname === "/workflow-execution") requests++; });
    const turn = (hidden) => other.page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
    await other.open(stack.url, "#/executions");
    await other.page.getByRole("table").waitFor();
    await turn(true);
    await other.page.waitForLoadState("networkidle");
    const before = requests;
    await other.page.clock.runFor(120_000);
    await other.page.waitForLoadState("networkidle");
    assert.equal(requests, before);
    await turn(false);
    await other.page.waitForResponse((reply) => new URL(reply.url()).pathname === "/workflow-execution");
  } finally {
    await other.browser.close();
  }
});

test("an execution is held, let into its steps, taken back and released", async () => {
  const id = await stack.start("test/look", ["sw-037"], {}, { hold: true, mode: "step" });
  await stack.until(id, (x) => x.waiting?.kind === "HOLD");
  await show(`#/executions/${id}`, /test\/look/);
  const does = async (verb, says, fill = {}) => {
    await page.getByRole("group", { name: "What you can do" }).getByRole("button", { name: verb, exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(says).waitFor();
    for (const [label, value] of Object.entries(fill)) await dialog.getByLabel(label).fill(value);
    await dialog.getByLabel("Reason").fill(`because of ${verb}`);
    await dialog.getByRole("button", { name: verb, exact: true }).click();
    await dialog.waitFor({ state: "detached" });
  };
  await does("Resume", "it begins now");
  await page.getByText(/Waits for an operator to let it enter a step.*first/).waitFor();
  await does("Next step", "It enters first");
  await page.getByText(/Waits for an operator to let it enter a step.*work/).waitFor();
  await does("Rewind", "goes back to an earlier step", { "To step": "first" });
  await stack.until(id, (x) => x.waiting?.step === "first");
  await page.getByText(/Waits for an operator to let it enter a step.*first/).waitFor();
  await does("Next step", "It enters first");
  await page.getByText(/Waits for an operator to let it enter a step.*work/).waitFor();
  await does("Next step", "It enters work");
  await stack.until(id, (x) => x.state === "COMPLETED_ACK");
  const { items } = await stack.call("GET", `/workflow-execution/id/${id}/history?limit=1000`);
  assert.equal(items.filter((e) => JSON.stringify(e.data).includes("because of Rewind")).length, 1, "the history has the reason");
});

test("locks of an unsafe end are released, and the end stays", async () => {
  const id = await stack.start("test/burn", ["sw-038", "sw-039"], { fail: ["sw-039"] });
  await stack.until(id, (x) => x.state === "FAILED_UNSAFE");
  await show(`#/executions/${id}`, /test\/burn/);
  await page.getByRole("button", { name: "Unlock" }).click();
  await page.getByRole("dialog").getByText("nothing else changes").waitFor();
  await page.getByRole("dialog").getByLabel("Reason").fill("needed elsewhere");
  await page.getByRole("dialog").getByRole("button", { name: "Unlock" }).click();
  const x = await stack.until(id, (x) => x.kept === 0);
  assert.equal(x.state, "FAILED_UNSAFE");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Unlock" }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Acknowledge" }).waitFor();
});

test("what the service holds is text, whatever it says", async () => {
  const id = await stack.start("test/change", ["sw-035", "sw-036"], { fail: ["sw-036"], message: hostile, result: { note: hostile } }, { labels: { change: hostile } });
  await stack.until(id, (x) => x.state === "FAILED_SAFE_ACK");
  await show(`#/executions/${id}`, /test\/change/);
  await page.getByText(hostile).first().waitFor();
  await page.getByText(`Labels: change=${hostile}`).waitFor();
  await show(`#/executions/${id}/jobs?entity=device%2Fsw-035&step=work`, "Jobs");
  await page.getByRole("table", { name: "Jobs" }).getByRole("link", { name: "device/sw-035" }).first().click();
  await page.getByRole("region", { name: "Result" }).getByText("onerror=alert(2)").waitFor();
  assert.equal(await page.locator("main script, main img").count(), 0);
  await clean();
});

test("an error of the service is shown with what to do next", async () => {
  await browser.open(stack.url, "#/executions/00000000-0000-7000-8000-000000000000");
  await page.getByRole("alert").getByText("Check the address.").waitFor();
  await show("#/executions?workflow=%3Cscript%3E", "Executions");
  await page.getByRole("alert").getByText("Correct what is listed").waitFor();
  assert.deepEqual(browser.faults, []);
});

test("the page is used with the keyboard, in light and dark", async () => {
  await show("", "Executions");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await clean();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "hidden" });
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement.closest("form")?.getAttribute("aria-label") === "Filters");
  await page.evaluate(() => document.activeElement.blur());
  for (const theme of ["light", "dark"]) {
    await page.getByRole("button", { name: /^Theme/ }).click();
    await page.locator(`:root[data-theme=${theme}]`).waitFor();
    await clean();
  }
});
