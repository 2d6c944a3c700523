// Takes the pictures of the monitor that the documentation shows:
//
//	node screenshots.mjs FOLDER
import { mkdir } from "node:fs/promises";
import { openBrowser, startStack } from "./stack.mjs";

const folder = process.argv[2] ?? "docs/images";
await mkdir(folder, { recursive: true });
const stack = await startStack();
const sites = ["bsl", "gva", "lab", "zrh"];
const ids = Array.from({ length: 600 }, (_, n) => `sw-${String(n + 1).padStart(3, "0")}`);
await stack.importEntities(ids.map((id, n) => ({ type: "device", id, attributes: { site: sites[n % 4], model: "c9300" }, groups: [sites[n % 4]] })));
const upgrade = (version, change) => `package: fleet
name: upgrade_firmware
version: ${version}
seedEntity: device
parameters:
  type: object
  required: [target]
  properties:
    target: {type: string, title: Target version, pattern: "^[0-9.]+$"}
    window: {type: string, enum: [night, weekend]}
    fail: {type: array, items: {type: string}}
    delay: {type: integer, minimum: 0}
config: {failureTolerance: 5%, maxInFlight: 200}
steps:
  - {label: inventory, functionBlock: "test/look:1", runOn: device}
  - label: upgrade
    functionBlock: test/change:1
    runOn: device
    parameters: {fail: "\${has(parameters.fail) ? parameters.fail : []}", delay: "\${has(parameters.delay) ? parameters.delay : 0}", message: no space left on flash}
  - {label: verify, functionBlock: "test/look:1", runOn: device${change}}
`;
await stack.publish(upgrade("1.0.0", ""));
await stack.publish(upgrade("1.1.0", ", condition: entity.model == 'c9300'"));
await stack.publish(`package: fleet
name: replace
version: 1.0.0
seedEntity: device
steps:
  - label: approve
    wait: {approval: {title: Replace the switch?, deadline: 24h}}
  - {label: replace, functionBlock: "test/burn:1", runOn: device, parameters: {fail: [sw-590]}}
`);

const { browser, page, open } = await openBrowser({ viewport: { width: 1280, height: 860 } });
const picture = async (name, hash, ready) => {
  await open(stack.url, hash);
  await page.getByText(ready).first().waitFor();
  await page.waitForTimeout(1_500);
  await page.screenshot({ path: `${folder}/${name}.png`, fullPage: false });
  console.log(`${folder}/${name}.png`);
};

await stack.until(await stack.start("fleet/upgrade_firmware", ids.slice(0, 12), { target: "17.9" }, { labels: { change: "CHG-7" } }), (x) => x.endedAt);
await stack.until(await stack.start("fleet/upgrade_firmware", ids.slice(40, 60), { target: "17.9", fail: ["sw-050"] }, { labels: { change: "CHG-8" } }), (x) => x.endedAt);
const running = await stack.start("fleet/upgrade_firmware", ids.slice(0, 500), { target: "17.12", delay: 700, fail: ["sw-031", "sw-118", "sw-220"] }, { labels: { change: "CHG-12" } });
await stack.until(running, (x) => x.currentStep === "upgrade" && x.progress.jobs.completed > 620);
const waiting = await stack.start("fleet/upgrade_firmware", ids.slice(3, 5), { target: "17.12" });
await stack.until(waiting, (x) => x.waiting);
await picture("execution", `#/executions/${running}`, "Entities");
await page.locator("#map").scrollIntoViewIfNeeded();
await page.locator("#map").screenshot({ path: `${folder}/map.png` });
await picture("executions", "#/executions", "CHG-12");
await picture("locks", "#/locks", waiting);
const asking = await stack.start("fleet/replace", ["sw-590", "sw-591"]);
await stack.until(asking, (x) => x.waiting?.kind === "INPUT");
await picture("inbox", "#/inbox", "Replace the switch?");
await picture("difference", "#/definitions/fleet/upgrade_firmware/1.1.0?against=1.0.0", "From 1.0.0 to 1.1.0");
await open(stack.url, "#/start/fleet/upgrade_firmware/1.1.0");
await page.getByLabel("Target version (required)").fill("17.12");
await page.getByLabel("Groups").fill("zrh");
await page.getByRole("button", { name: "Plan" }).click();
await page.getByText("What a start would do").waitFor();
await page.getByText("What a start would do").evaluate((e) => e.scrollIntoView({ block: "center" }));
await page.screenshot({ path: `${folder}/plan.png` });
await stack.until(running, (x) => x.endedAt);
await picture("failures", "#/failures", "REFUSED");
await browser.close();
await stack.stop();
