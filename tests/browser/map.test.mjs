// The map of an execution over ten thousand entities.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, startStack } from "./stack.mjs";

const count = 10_000;
let stack;
let browser;

before(async () => {
  stack = await startStack();
  const ids = Array.from({ length: count }, (_, n) => `sw-${String(n).padStart(5, "0")}`);
  for (let n = 0; n < count; n += 1000) await stack.importEntities(ids.slice(n, n + 1000).map((id) => ({ type: "device", id, attributes: {}, groups: ["all"] })));
  await stack.publish(`package: test
name: many
version: 1.0.0
seedEntity: device
config: {failureTolerance: 10, maxInFlight: 10000}
steps:
  - {label: look, functionBlock: "test/look:1", runOn: device, parameters: {fail: [sw-00007, sw-09000]}}
`);
  browser = await openBrowser();
});

after(async () => {
  await browser?.browser.close();
  await stack?.stop();
});

test("ten thousand entities are one glance, and each leads to its jobs", async (t) => {
  const { page } = browser;
  const { id } = await stack.call("POST", "/workflow-execution", { workflow: "test/many", parameters: {}, executeOnParameters: { groups: ["all"] } });
  const began = Date.now();
  const x = await stack.until(id, (x) => x.endedAt !== null);
  t.diagnostic(`executed in ${Date.now() - began} ms: ${x.state}`);
  const opened = Date.now();
  await browser.open(stack.url, `#/executions/${id}`);
  await page.locator("#map canvas[data-painted]").waitFor();
  t.diagnostic(`first paint of the map ${Date.now() - opened} ms after the address was entered`);
  const map = page.locator(`#map canvas[data-painted='${count}']`);
  await map.waitFor();
  t.diagnostic(`all ${count} entities painted after ${Date.now() - opened} ms`);
  assert.match(await map.getAttribute("aria-label"), /10000 entities: 9998 completed, 2 failed/);
  await page.getByRole("button", { name: "2 failed" }).click();
  await page.getByRole("region", { name: "Entities: failed" }).getByRole("link", { name: "device/sw-09000" }).click();
  await page.getByRole("table", { name: "Jobs" }).getByText("REFUSED").waitFor();
  assert.deepEqual(await browser.violations(), []);

  // Of a table of ten thousand jobs only the rows that are seen are in the page.
  await browser.open(stack.url, `#/executions/${id}/jobs`);
  await page.getByText(`${count} jobs`, { exact: true }).waitFor();
  const table = page.getByRole("table", { name: "Jobs" });
  assert.equal(await table.getAttribute("aria-rowcount"), String(count + 1));
  assert.equal(await table.getByRole("row").count() < 60, true);
  await table.evaluate((e) => e.scrollTo(0, e.scrollHeight));
  await table.getByRole("row").and(page.locator(`[aria-rowindex='${count + 1}']`)).waitFor();
  assert.deepEqual(browser.faults, []);
});
