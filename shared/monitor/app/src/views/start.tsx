// Start an execution: a form made from the schema of the definition, and what the start would do before it is sent.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { get, post, type Schemas, useKey } from "../api";
import { may, useCaller } from "../caller";
import { Form, isObject, type Schema, start } from "../form";
import { useLive } from "../live";
import { type Route, to } from "../route";
import { EntityLink, ExecutionLink, Field, Loaded, ProblemText, Table } from "../ui";
import { CostLines } from "./details";

interface Source { parameters?: Schema; seedEntity?: string }

export function Start({ route }: { route: Route }): VNode {
  const [, pack = "", name = "", version = ""] = route.path;
  const live = useLive(`${pack}/${name}:${version}`, (signal) => get("/workflow-definition/{package}/{name}/{version}", { package: pack, name, version }, undefined, signal));
  return (
    <>
      <h1>Start {pack}/{name}:{version}</h1>
      <Loaded live={live}>{(d) => <StartForm workflow={`${d.package}/${d.name}:${d.version}`} source={(d.definition ?? {}) as Source} />}</Loaded>
    </>
  );
}

const list = (text: string): string[] | undefined => {
  const items = text.split(/[\s,]+/).filter(Boolean);
  return items.length > 0 ? items : undefined;
};

function StartForm({ workflow, source }: { workflow: string; source: Source }): VNode {
  const schema = source.parameters ?? { type: "object" };
  const [parameters, setParameters] = useState<unknown>(() => start(schema));
  const [valid, setValid] = useState(true);
  const [more, setMore] = useState({ ids: "", groups: "", query: "", labels: "", key: "", mode: "" });
  const [plan, setPlan] = useState<{ of: string; plan: Schemas["Plan"] }>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const set = (field: keyof typeof more) => (value: string) => setMore((m) => ({ ...m, [field]: value }));
  const selector = { ids: list(more.ids), groups: list(more.groups), query: more.query || undefined };
  const labels = Object.fromEntries((list(more.labels) ?? []).map((l) => [l.split("=", 1)[0]!, l.slice(l.indexOf("=") + 1)]));
  const request: Schemas["StartRequest"] = {
    workflow, parameters: (parameters ?? {}) as Record<string, never>, labels,
    ...(selector.ids || selector.groups || selector.query ? { executeOnParameters: selector } : {}),
    ...(more.key ? { key: more.key } : {}),
    ...(more.mode ? { mode: more.mode as "probe" } : {}),
  };
  const of = JSON.stringify(request);
  const key = useKey();
  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    try {
      await work();
    } catch (refusal) {
      setError(refusal);
    } finally {
      setBusy(false);
    }
  };
  const planned = plan?.of === of;
  const caller = useCaller();
  const mayStart = may(caller, "startExecution");
  return (
    <>
      <form onSubmit={(e) => {
        e.preventDefault();
        void attempt(async () => setPlan({ of, plan: await post("/workflow-execution/plan", undefined, request) }));
      }}>
        {isObject(schema) || source.parameters ? <><h2>Parameters</h2><Form schema={schema} value={parameters} onChange={(v, ok) => { setParameters(v); setValid(ok); }} /></> : <p class="calm">It has no parameters.</p>}
        <h2>Entities</h2>
        <div class="filters">
          <Field label={`Ids${source.seedEntity ? ` (${source.seedEntity})` : ""}`} value={more.ids} onChange={set("ids")} hint="sw-001 sw-002" />
          <Field label="Groups" value={more.groups} onChange={set("groups")} />
          <Field label="Query" value={more.query} onChange={set("query")} hint={'entity.site == "zrh"'} />
        </div>
        <h2>More</h2>
        <div class="filters">
          <Field label="Labels" value={more.labels} onChange={set("labels")} hint="change=CHG-7" />
          <Field label="Business key" value={more.key} onChange={set("key")} />
          <Field label="Mode" value={more.mode} onChange={set("mode")} options={["", "probe", "step"]} none="normal" />
        </div>
        <p class="verbs">
          <button type="submit" disabled={busy || !valid}>Plan</button>
          <button type="button" class="strong" disabled={busy || !valid || !planned || !mayStart}
            onClick={() => attempt(async () => { location.hash = to(["executions", (await post("/workflow-execution", undefined, request, key(request)) as Schemas["Started"]).id]); })}>Start</button>
          {caller && !mayStart ? <span class="calm">Your roles do not let you start executions.</span> : planned ? null : <span class="calm">The plan shows what a start would do. Then it can be started.</span>}
        </p>
      </form>
      <ProblemText error={error} />
      {planned ? <PlanView plan={plan.plan} /> : null}
    </>
  );
}

const reached: Record<string, string> = { ALWAYS: "always", CHOICE: "if chosen", FAILURE: "after a failure", NEVER: "never" };

function PlanView({ plan: p }: { plan: Schemas["Plan"] }): VNode {
  const types = Object.entries(p.entities.byType).map(([t, n]) => `${n} ${t}`).join(", ");
  return (
    <section aria-label="Plan" class="card">
      <h2>What a start would do</h2>
      {p.problem ? <p class="failed"><strong>It would fail before its first step:</strong> {p.problem.code} {p.problem.message}</p> : p.fails ? <p class="failed"><strong>It would fail.</strong></p> : null}
      <p>{p.entities.total} entities{types ? `: ${types}` : ""}{p.entities.named.length > 0 ? <> (<Named paths={p.entities.named} />{p.entities.total > p.entities.named.length ? " and more" : ""})</> : null}, locked {p.lockMode === "shared" ? "together with other readers" : "for it alone"}.</p>
      {p.entities.more.length > 0 ? <p>{p.entities.more.map((m) => m.block).join(", ")} will add others, which cannot be told before.</p> : null}
      {p.locked.count > 0 ? (
        <>
          <p><strong>{p.locked.count} of them are locked now</strong>; it would {p.onLocked === "wait" ? "wait for them" : p.onLocked === "skip" ? "leave them out" : "fail"}.</p>
          <ul>{p.locked.named.map((l) => <li><EntityLink path={l.entity} /> {l.heldBy ? <>held by <ExecutionLink id={l.heldBy} /></> : <>reserved by <ExecutionLink id={l.reservedBy} /></>}{l.needsPerson ? ", which waits to be acknowledged" : ""}</li>)}</ul>
        </>
      ) : <p>None of them is locked now.</p>}
      {p.startWhen && !p.startWhen.true ? <p>It would wait until <code>{p.startWhen.condition}</code>. {p.startWhen.reason}</p> : null}
      <Table caption="Steps of the plan" rows={p.steps} empty="It has no steps." columns={[
        { title: "Step", cell: (s) => (s.inside ? `${s.label} (in ${s.inside})` : s.label) },
        { title: "Block", cell: (s) => s.block },
        { title: "Reached", cell: (s) => reached[s.reached] },
        { title: "Jobs", number: true, cell: (s) => `${s.atMost ? "at most " : ""}${s.jobs}` },
        { title: "Skipped", number: true, cell: (s) => s.skipped },
        { title: "Effect", cell: (s) => s.effect.toLowerCase() },
        { title: "If it fails", cell: (s) => s.problem ? <strong class="failed">{s.problem.code} {s.problem.message}</strong> : s.ifFails },
        { title: "Waves", cell: (s) => s.waves.map((w) => `${w.name}: ${w.entities}`).join(", ") },
        { title: "Cannot be told", cell: (s) => s.unknown.join(", ") },
      ]} />
      <p>{p.messages} messages with jobs. Without retries and rollbacks it costs:</p>
      <CostLines lines={p.cost.lines} total={p.cost.dollars} asOf={p.cost.pricesAsOf} />
    </section>
  );
}

function Named({ paths }: { paths: string[] }): VNode {
  return <>{paths.map((p, n) => <>{n > 0 ? ", " : ""}<EntityLink path={p} /></>)}</>;
}
