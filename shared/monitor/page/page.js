// The status page: everything comes from the HTTP interface, every two seconds.
const $ = (id) => document.getElementById(id);
let shown = location.hash.slice(1);

async function get(path) {
  const reply = await fetch(path, { headers: { accept: "application/json" } });
  const body = await reply.json();
  if (!reply.ok) throw new Error(body.detail || body.title || reply.statusText);
  return body;
}

// row makes a table row; a cell is a text, a number or an element.
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
  button.addEventListener("click", () => { shown = id; location.hash = id; refresh(); });
  return button;
}

function state(run) {
  const span = document.createElement("span");
  span.className = run.state.startsWith("FAILED_UNSAFE") ? "unsafe" : run.status;
  span.textContent = run.state;
  return span;
}

const time = (text) => (text ? new Date(text).toLocaleString() : "");
const name = (w) => `${w.package}/${w.name}:${w.version}`;

function says(run) {
  if (run.waiting) {
    const who = run.waiting.for.map((f) => `${f.entity ?? ""} ${f.heldBy ? "held by " + f.heldBy : f.reservedBy ? "reserved by " + f.reservedBy : ""}`).join(", ");
    return `waits for ${run.waiting.kind} since ${time(run.waiting.since)} ${who}`;
  }
  if (run.error) return `${run.cause}: ${run.error.message} ${run.error.entity ?? ""}${run.rolledBack ? " (rolled back)" : ""}`;
  return run.reason || run.state;
}

async function refresh() {
  try {
    const [runs, locks] = await Promise.all([get("/workflow-execution?limit=50"), get("/locks?limit=50")]);
    $("runs").replaceChildren(...runs.items.map((r) => row([
      link(r.id), name(r.workflow), state(r), `${r.progress.jobs.completed}/${r.progress.jobs.total}`,
      r.progress.jobs.failed, r.currentStep, time(r.createdAt)])));
    $("runs-empty").hidden = runs.items.length > 0;
    $("locks").replaceChildren(...locks.items.map((l) => row([
      `${l.entity.type}/${l.entity.id}`, link(l.heldBy), time(l.since), l.token,
      l.waiting.map((w) => w.execution).join(", ")])));
    $("locks-empty").hidden = locks.items.length > 0;
    if (shown) await showRun();
    $("note").textContent = `as of ${new Date().toLocaleTimeString()}`;
  } catch (err) {
    $("note").textContent = `cannot refresh: ${err.message}`;
  }
}

async function showRun() {
  const id = encodeURIComponent(shown);
  const [run, steps] = await Promise.all([get(`/workflow-execution/id/${id}`), get(`/workflow-execution/id/${id}/steps`)]);
  $("run").hidden = false;
  $("run-title").textContent = `${name(run.workflow)} ${run.id}`;
  $("run-says").textContent = says(run);
  $("steps").replaceChildren(...steps.items.map((s) => row([
    s.step, s.wave ? `${s.kind} ${s.wave}` : s.kind, s.status, s.jobs.total, s.jobs.completed, s.jobs.failed,
    s.jobs.cancelled ?? 0, s.jobs.unknown ?? 0, s.skipped])));
}

await refresh();
setInterval(refresh, 2000);
