// The page of somebody who has nothing but a token, in a real browser against a local stack.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { openBrowser, startStack } from "./stack.mjs";

let stack;
let browser;
let page;
let asked = []; // what the page has asked for
const hostile = "<script>alert(1)</script>";

before(async () => {
  stack = await startStack();
  await stack.publish(`package: test
name: ask
version: 1.0.0
steps:
  - label: detail
    wait:
      input:
        title: "Which slot? ${hostile}"
        deadline: 2h
        show: {free: [2, 3], note: "${hostile}"}
        schema: {type: object, required: [slot, code], properties: {slot: {type: integer, minimum: 1, maximum: 8, title: Slot}, code: {type: string, pattern: "^[a-z]+$"}, size: {enum: [small, large]}}, additionalProperties: false}
`);
  await stack.publish(`package: test
name: consent
version: 1.0.0
steps:
  - {label: approve, wait: {approval: {title: May it go on, deadline: 2h}}}
`);
  await stack.publish(`package: test
name: both
version: 1.0.0
steps:
  - {label: approve, wait: {approval: {title: May both go on, need: 2, deadline: 2h}}}
`);
  browser = await openBrowser();
  page = browser.page;
  page.on("request", (request) => asked.push(request));
});

beforeEach(async () => {
  await page.goto("about:blank");
  asked = [];
});

after(async () => {
  await browser?.browser.close();
  await stack?.stop();
});

/** ask starts an execution that asks, and makes a token for its answer. */
async function ask(workflow = "test/ask", more = {}) {
  const id = await stack.start(workflow);
  await stack.until(id, (x) => x.waiting?.kind === "INPUT");
  const { token } = await stack.call("POST", `/workflow-execution/${id}/tokens`, { for: "bob@example.com", ...more });
  return { id, token };
}

/** open opens the link of a token, which the address does not show then. */
async function open(token) {
  await browser.open(stack.url, `answer#${token}`);
  await page.waitForURL(`${stack.url}/answer`);
}

const status = (text) => page.getByRole("status").filter({ hasText: text });

/** untold fails if a request had the token anywhere but in the header that is for it. */
async function untold(token) {
  let sent = 0;
  for (const request of asked) {
    assert.equal(request.url().includes("lst1."), false, request.url());
    assert.equal((request.postData() ?? "").includes(token), false, request.url());
    const headers = await request.allHeaders();
    for (const [name, value] of Object.entries(headers)) {
      if (!value.includes("lst1.")) continue;
      assert.equal(name, "authorization");
      assert.equal(new URL(request.url()).pathname, "/answers");
      sent++;
    }
  }
  assert.deepEqual(browser.foreign, []);
  return sent;
}

test("the bearer of a token answers by the keyboard, and the token stays out of every address", async () => {
  const { id, token } = await ask();
  await open(token);
  await page.getByRole("heading", { name: `Which slot? ${hostile}` }).waitFor();
  await page.getByText("You answer by the name bob@example.com").waitFor();
  assert.match(await page.getByRole("region", { name: "What you are shown" }).textContent(), /<script>/);
  assert.match(await page.title(), /^Which slot\?/);
  assert.deepEqual(await browser.violations(), []);

  // What the service refuses is named, and can be corrected.
  await page.getByLabel("code (required)").focus();
  await page.keyboard.type("ABC");
  await page.keyboard.press("Tab");
  await page.keyboard.type("3");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("code", { exact: false }).first().waitFor();
  assert.deepEqual(await browser.violations(), []);
  await page.getByLabel("code (required)").fill("abc");
  await page.keyboard.press("Enter");
  await status("Your answer is sent.").waitFor();
  await page.locator("h1:focus").waitFor();
  assert.deepEqual(await browser.violations(), []);
  assert.equal((await stack.until(id, (x) => x.endedAt !== null)).state, "COMPLETED_ACK");
  const { items } = await stack.call("GET", `/workflow-execution/id/${id}/history?limit=200`);
  assert.equal(items.filter((e) => e.type === "input.answered" && e.actor === "bob@example.com").length, 1);
  assert.equal(await untold(token), 3);

  // Nothing is kept: neither by the page nor by the history of the browser.
  assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie + document.body.innerHTML).then((all) => all.includes("lst1.")), false);
  await page.reload();
  await status("This page needs a link with a token").waitFor();
  assert.deepEqual(await browser.violations(), []);
  assert.deepEqual(browser.faults, []);
});

test("a link that takes no answer says why", async () => {
  const used = await ask("test/both");
  const answered = await ask("test/consent");
  for (const { token } of [used, answered]) {
    const reply = await fetch(`${stack.url}/answers`, { method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: `{"input":{"approved":true}}` });
    assert.equal(reply.status, 202);
  }
  const revoked = await ask();
  await stack.call("POST", `/workflow-execution/${revoked.id}/tokens/revoke`, {});
  const closed = await ask();
  await stack.call("POST", `/workflow-execution/${closed.id}/cancel`, {});
  const expired = await ask("test/ask", { expiresAt: new Date(Date.now() + 1_500).toISOString() });
  for (let n = 0; n < 100 && (await fetch(`${stack.url}/answers`, { headers: { authorization: `Bearer ${expired.token}` } })).ok; n++) await page.waitForTimeout(100);
  const forged = `${used.token.slice(0, -6)}AAAAAA`;
  for (const [token, text] of [[used.token, "has been used"], [answered.token, "has been answered"], [revoked.token, "was revoked"], [closed.token, "Nothing is asked here any more"], [expired.token, "has expired"], [forged, "is not valid"]]) {
    await open(token); // the next one changes what is behind the # only
    await status(text).waitFor();
    assert.equal(await page.getByRole("button").count(), 0);
    assert.deepEqual(await browser.violations(), []);
  }
  assert.equal(await untold(used.token), 6);
  assert.deepEqual(browser.faults, []);
});

test("an answer that comes too late says so", async () => {
  const { id, token } = await ask("test/consent");
  await open(token);
  await page.getByRole("heading", { name: "May it go on" }).waitFor();
  await stack.call("POST", `/workflow-execution/${id}/resume`, { input: { approved: false } });
  await page.getByLabel("Approve (required)").selectOption("yes");
  await page.getByRole("button", { name: "Answer" }).click();
  await status("Nothing is asked here any more").waitFor();
  assert.deepEqual(browser.faults, []);
});

test("an approval is sent once the service can be reached again", async () => {
  const { id, token } = await ask("test/consent");
  await page.route("**/answers", (route) => route.abort());
  await open(token);
  await page.getByRole("alert").waitFor();
  assert.deepEqual(await browser.violations(), []);
  await page.unroute("**/answers");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByLabel("Approve (required)").selectOption("yes");
  await page.route("**/answers", (route) => route.abort());
  await page.getByRole("button", { name: "Answer" }).click();
  await page.getByRole("alert").waitFor();
  await page.unroute("**/answers");
  await page.getByRole("button", { name: "Answer" }).click();
  await status("Your answer is sent.").waitFor();
  await stack.until(id, (x) => x.endedAt !== null);
});

test("the monitor takes no token for an id", async () => {
  const { token } = await ask();
  await browser.open(stack.url, `#${token}`);
  await page.getByRole("heading", { name: "Which slot?" }).waitFor();
  await page.waitForURL(`${stack.url}/answer`);
  assert.equal(await untold(token), 1);
});
