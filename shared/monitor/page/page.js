// The monitor page: reads everything through the HTTP API, every two seconds.
const $ = (id) => document.getElementById(id);
let selected = location.hash.slice(1);

async function get(path) {
  const reply = await fetch(path, { headers: { accept: "application/json" } });
  const body = await reply.json();
  if (!reply.ok) throw new Error(body.detail || body.title || reply.statusText);
  return body;
}

// row makes a table row; a cell is a string, a number or an element.
function row(cells) {
  const tr = document.createElement("tr");
  for (const cell of cells) {
    const td = document.createElement("td");
    if (typeof cell === "number") td.className = "number";
    td.append(cell instanceof Node ? cell : String(cell ?? ""));
    tr.append(td);
  }
  return tr;
}

function link(id) {
  const button = document.createElement("button");
  button.className = "link";
  button.textContent = id;
  button.addEventListener("click", () => { selected = id; location.hash = id; refresh(); });
  return button;
}

function state(execution) {
  const span = document.createElement("span");
  span.className = execution.state.startsWith("FAILED_UNSAFE") ? "unsafe" : execution.status;
  span.textContent = execution.state;
  return span;
}

function outcome(value) {
  const span = document.createElement("span");
  span.className = value === "FAILED_UNSAFE" ? "unsafe" : value === "SUCCEEDED" || value === "PROBED" ? "COMPLETED" : "FAILED";
  span.textContent = value ?? "";
  return span;
}

// showOutcomes shows what became of the entities of an execution that has ended: how many
// have which outcome, and the first that failed, with the reason.
function showOutcomes(execution) {
  const counts = Object.entries(execution.entityOutcomes).map(([value, n]) => `${n} ${value}`);
  const failed = execution.failedEntities;
  const all = Object.entries(execution.entityOutcomes).reduce((n, [value, m]) => n + (value === "SUCCEEDED" || value === "SKIPPED" ? 0 : m), 0);
  const shown = all > failed.length && failed.length > 0 ? `; the first ${failed.length} that failed:` : "";
  $("outcomes").hidden = counts.length === 0;
  $("outcomes").textContent = `entities: ${counts.join(", ")}${shown}`;
  $("failed-table").hidden = failed.length === 0;
  $("failed").replaceChildren(...failed.map((f) => row([f.entity, outcome(f.outcome), f.step, f.code, f.message])));
}

const time = (text) => (text ? new Date(text).toLocaleString() : "");
const name = (w) => `${w.package}/${w.name}:${w.version}`;

function summary(execution) {
  if (execution.waiting) {
    const who = execution.waiting.for.map((f) => `${f.entity ?? ""} ${f.heldBy ? "held by " + f.heldBy : f.reservedBy ? "reserved by " + f.reservedBy : ""}`).join(", ");
    return `waiting for ${execution.waiting.kind} since ${time(execution.waiting.since)} ${who}`;
  }
  if (execution.error) return `${execution.cause}: ${execution.error.message} ${execution.error.entity ?? ""}${execution.rolledBack ? " (rolled back)" : ""}`;
  return execution.reason || execution.state;
}

// way says where the execution went from a step, if not to the one behind it.
function way(step) {
  const parts = [];
  if (step.rollout) parts.push(`wave ${step.rollout.wave} of ${step.rollout.of}`);
  if (step.rollout?.stoppedAt) parts.push(`stopped at wave ${step.rollout.stoppedAt}`);
  if (step.route) parts.push(`case ${step.route.case} (${step.route.when ?? "always"})`);
  if (step.handled) parts.push(`${step.error?.code ?? "failure"} handled by case ${step.handled.case} of ${step.handled.step}`);
  if (step.next) parts.push(`next ${step.next}`);
  return parts.join(", ");
}

async function refresh() {
  try {
    const [executions, locks] = await Promise.all([get("/workflow-execution?limit=50"), get("/locks?limit=50")]);
    $("executions").replaceChildren(...executions.items.map((x) => row([
      link(x.id), name(x.workflow), state(x), outcome(x.outcome), `${x.progress.jobs.completed}/${x.progress.jobs.total}`,
      x.progress.jobs.failed, x.currentStep, time(x.createdAt)])));
    $("executions-empty").hidden = executions.items.length > 0;
    const skipped = [...new Set([...(executions.skipped ?? []), ...(locks.skipped ?? [])])];
    $("skipped").hidden = skipped.length === 0;
    $("skipped").textContent = `left out, because a newer release has written them: ${skipped.join(", ")}`;
    $("locks").replaceChildren(...locks.items.map((l) => row([
      `${l.entity.type}/${l.entity.id}`, link(l.heldBy), time(l.since), l.token,
      l.waiting.map((w) => w.execution).join(", ")])));
    $("locks-empty").hidden = locks.items.length > 0;
    if (selected) await showExecution();
    $("note").textContent = `as of ${new Date().toLocaleTimeString()}`;
  } catch (err) {
    $("note").textContent = `cannot refresh: ${err.message}`;
  }
}

async function showExecution() {
  const id = encodeURIComponent(selected);
  const [execution, steps] = await Promise.all([get(`/workflow-execution/id/${id}`), get(`/workflow-execution/id/${id}/steps`)]);
  $("execution").hidden = false;
  $("execution-title").textContent = `${name(execution.workflow)} ${execution.id}`;
  $("execution-summary").textContent = summary(execution);
  showOutcomes(execution);
  $("steps").replaceChildren(...steps.items.map((s) => row([
    s.step, s.wave ? `${s.kind} ${s.wave}` : s.kind, s.status, s.jobs.total, s.jobs.completed, s.jobs.failed,
    s.jobs.cancelled ?? 0, s.jobs.unknown ?? 0, s.skipped, way(s)])));
}

await refresh();
setInterval(refresh, 2000);
