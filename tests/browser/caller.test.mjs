// What the page offers to callers with different roles, in a real browser against a local stack.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, startStack } from "./stack.mjs";

let stack;
let browser;
let page;
let id;

before(async () => {
  stack = await startStack({ LOCKSTEP_ACCESS_ADMIN: "actor:local", LOCKSTEP_ACCESS_VIEWER: "watcher", LOCKSTEP_ACCESS_OPERATOR: "ops", LOCKSTEP_ACCESS_APPROVER: "boss" });
  await stack.publish(`package: test
name: ask
version: 1.0.0
steps:
  - {label: consent, wait: {input: {title: May it go on, schema: {type: object, properties: {yes: {type: boolean}}}}}}
`);
  id = await stack.start("test/ask");
  await stack.until(id, (x) => x.waiting?.kind === "INPUT");
  browser = await openBrowser();
  page = browser.page;
});

after(async () => {
  await browser?.browser.close();
  await stack?.stop();
});

/** has waits until so many elements are shown. */
async function has(n, locator) {
  for (let tries = 0; tries < 100 && await locator.count() !== n; tries++) await page.waitForTimeout(50);
  assert.equal(await locator.count(), n);
}

for (const [roles, offered] of [["watcher", { cancel: 0, answer: 0, start: false, publish: 0 }], ["ops", { cancel: 1, answer: 0, start: true, publish: 0 }], ["boss", { cancel: 0, answer: 1, start: false, publish: 0 }]]) {
  test(`a caller with the role ${roles} is offered what it may do`, async () => {
    await page.setExtraHTTPHeaders({ "x-actor": "ann", "x-roles": roles });
    await browser.open(stack.url, `#/executions/${id}`);
    await page.reload(); // who the caller is, is asked once for each page
    await page.getByText("ann", { exact: true }).waitFor();
    await page.getByRole("heading", { name: "test/ask" }).first().waitFor();
    await has(offered.cancel, page.getByRole("button", { name: "Cancel", exact: true }));
    await browser.open(stack.url, "#/inbox");
    await page.getByRole("heading", { name: "May it go on" }).waitFor();
    await has(offered.answer, page.getByRole("button", { name: "Answer" }));
    await has(1 - offered.answer, page.getByText("Your roles do not let you answer."));
    await browser.open(stack.url, "#/definitions");
    await page.getByRole("link", { name: "test/ask" }).first().waitFor();
    await has(offered.publish, page.getByRole("link", { name: "Publish" }));
    await browser.open(stack.url, "#/start/test/ask/1.0.0");
    await page.getByRole("button", { name: "Plan" }).click();
    await page.getByRole("heading", { name: "What a start would do" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Start", exact: true }).isEnabled(), offered.start);
    assert.deepEqual(await browser.violations(), []);
    assert.deepEqual(browser.faults, []);
  });
}
