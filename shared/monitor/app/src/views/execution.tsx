// One execution: where it stands, what it waits for, its steps and entities, and what can be done about it.
import type { VNode } from "preact";
import { all, type Execution, get, type Schemas } from "../api";
import { type Live, useLive } from "../live";
import { type Route, to } from "../route";
import { Bar, duration, EntityLink, ExecutionLink, Loaded, name, Table, time, Value, Word } from "../ui";
import { Cost, History, Result } from "./details";
import { Family, Waves } from "./family";
import { Jobs } from "./jobs";
import { StateMachine } from "./machine";
import { EntityMap } from "./map";
import { Verbs } from "./verbs";

export const tabs: { part: string; title: string }[] = [
  { part: "", title: "Overview" }, { part: "jobs", title: "Jobs" }, { part: "history", title: "History" },
  { part: "result", title: "Result" }, { part: "family", title: "Family" }, { part: "cost", title: "Cost" },
];

const left = {
  TOLERATED: "failureTolerance allows so many", CONTINUE_ON_ERROR: "continueOnError goes on", BRANCH: "allowPartial leaves the branch out",
  ROLLOUT: "the rollout has stopped", CHILD: "the execution that it has started completed in part",
};

export function ExecutionView({ route }: { route: Route }): VNode {
  const id = route.path[1]!;
  const part = route.path[2] ?? "";
  const live = useLive(id, (signal) => get("/workflow-execution/id/{id}", { id }, undefined, signal));
  return (
    <Loaded live={live}>{(x) => (
      <>
        <h1>{name(x.workflow)} <Word>{x.state}</Word> <Word>{x.outcome}</Word></h1>
        <p class="calm">
          <span class="id">{x.id}</span>{x.key ? <>, key {x.key}</> : null}{x.region ? <>, in region {x.region}</> : null}{x.limits ? <>, limited to {[x.limits.steps === null ? "" : `${x.limits.steps} step runs (so far ${x.limits.stepRuns})`, x.limits.wall ?? ""].filter(Boolean).join(" and ")}</> : null}, started by {x.createdBy} on {time(x.createdAt)}
          {x.endedAt ? <>, ended after {duration(x.createdAt, x.endedAt)}</> : <>, for {duration(x.createdAt)}</>}
          {x.try > 1 ? <>, try {x.try}</> : null}
          {x.compensates ? <>, undoes <ExecutionLink id={x.compensates.execution} /> of step {x.compensates.step}</> : null}
          {x.parent ? <>, part of <ExecutionLink id={x.parent} /></> : null}
          {x.rerunOf ? <>, runs again entities of <ExecutionLink id={x.rerunOf} /></> : null}
          {x.followUpOf ? <>, started by an event of <ExecutionLink id={x.followUpOf} /></> : null}
          {x.followUp ? <>, at its end <ExecutionLink id={x.followUp} /> was started</> : null}
          {x.rerunBy.map((r) => <>, run again by <ExecutionLink id={r} /></>)}
        </p>
        <Standing execution={x} />
        <Verbs execution={x} done={live.reload} />
        <nav class="tabs" aria-label="Parts of the execution">
          {tabs.map((t) => <a href={to(["executions", id, ...(t.part ? [t.part] : [])])} aria-current={t.part === part ? "page" : undefined}>{t.title}</a>)}
        </nav>
        {part === "jobs" ? <Jobs execution={x} route={route} />
          : part === "history" ? <History execution={x} route={route} />
          : part === "result" ? <Result execution={x} />
          : part === "family" ? <Family execution={x} />
          : part === "cost" ? <Cost id={id} />
          : <Overview execution={x} live={live} />}
      </>
    )}</Loaded>
  );
}

const waits: Record<string, string> = {
  LOCK: "for locks", CONDITION: "for its start condition", INPUT: "for an answer", TIMER: "for a time", SIGNAL: "for a signal",
  CHILD: "for an execution that it has started", CHILD_INPUT: "for an execution that waits for an answer", RETRY: "to try failed jobs again",
  WORKER: "for a worker", ACKNOWLEDGE: "for an operator to acknowledge its end", HOLD: "for its starter to release it",
  STEP: "for an operator to let it enter a step", KEY: "for the execution that has its key", ENGINE: "for the engine",
};

/** Standing says in a sentence what it waits for, or how it ended. */
export function Standing({ execution: x }: { execution: Execution }): VNode {
  const w = x.waiting;
  const others = (w?.all ?? []).filter((o) => o.step !== w?.step);
  return (
    <div class="standing">
      {w ? (
        <p>
          <strong>Waits {waits[w.kind] ?? w.kind}</strong> since {time(w.since)}{w.until ? <>, {w.kind === "WORKER" ? "gives up some time after" : "until"} {time(w.until)}</> : null}
          {w.step ? <>, in step {w.step}</> : null}{w.pool ? <>, in pool <a href={to(["workers"])}>{w.pool}</a></> : null}
          {w.condition ? <>: <code>{w.condition}</code></> : null}{w.signal && w.signal !== w.reason ? <>: <code>{w.signal}</code></> : null}{w.reason ? <>: {w.reason}</> : null}
          {w.child ? <>: <ExecutionLink id={w.child} /></> : null}
          {w.kind === "INPUT" ? <>. <a href={to(["inbox"])}>Answer it</a></> : null}
        </p>
      ) : null}
      {w?.for.length ? (
        <ul>{w.for.map((f) => (
          <li>
            {f.entity ? <EntityLink path={f.entity} /> : "it"} is {f.heldBy ? <>held by <ExecutionLink id={f.heldBy} /></> : <>reserved by <ExecutionLink id={f.reservedBy} /></>}
            {f.since ? <> since {time(f.since)}</> : null}
          </li>
        ))}</ul>
      ) : null}
      {others.length ? <p>It also waits {others.map((o) => `${waits[o.kind] ?? o.kind} in ${o.step}${o.until ? ` until ${time(o.until)}` : ""}`).join(", ")}.</p> : null}
      {x.error ? <p><strong>{x.error.code}</strong> {x.error.message} {x.error.step ? <>in step {x.error.step}</> : null} <EntityLink path={x.error.entity} /></p>
        : x.reason ? <p>{x.reason}</p> : null}
      {x.rolledBack ? <p>Everything that was executed has been rolled back.</p> : null}
      {x.remains ? <p><strong>May be left:</strong> {x.remains}</p> : null}
      {x.failedRollback ? <FailedRollback failed={x.failedRollback} /> : null}
      {x.unacknowledged.length ? (
        <p>
          <strong>To be acknowledged:</strong> {x.unacknowledged.map((c, n) => <>{n === 0 ? "" : ", "}<ExecutionLink id={c.id} /> of step {c.step}{c.item === null ? "" : `, item ${c.item}${c.itemText ? ` (${c.itemText})` : ""}`}, which ended <Word>{c.state}</Word></>)}.
          {" "}It keeps its locks until then; what a retry starts in its place waits for them.
        </p>
      ) : null}
      {x.unacknowledgedMore ? <p>It may have started others that wait to be acknowledged: the list of its children shows their states.</p> : null}
      {x.kept ? <p>It still locks {x.kept} entities until it is acknowledged.</p> : null}
      {x.followUpFailure ? <p><strong>Not started at its end,</strong> after {x.followUpFailure.attempts} attempts: {x.followUpFailure.error}{x.followUpFailure.deadLetter ? <> It is a dead letter now: <code>lockstep redrive --queue hooks-out</code> tries it again.</> : x.followUpFailure.retryAt ? <> It is tried again about {time(x.followUpFailure.retryAt)}.</> : null}</p> : null}
      {x.cancellation ? <p>Cancelled{x.cancellation.by ? ` by ${x.cancellation.by}` : ""} ({x.cancellation.source}): {x.cancellation.reason}</p> : null}
      {x.acknowledged && x.acknowledged.earlierMore > 0 ? <p>Acknowledged {x.acknowledged.earlierMore} times before these: the history has all.</p> : null}
      {x.acknowledged ? [...x.acknowledged.earlier, x.acknowledged].map((a, n) => <p key={n}>{a.entities === null ? "Acknowledged" : `${a.entities} of its entities acknowledged`} by {a.by} on {time(a.at)}: {a.reason}</p>) : null}
      {x.keyOwner ? <p>It gave way to <ExecutionLink id={x.keyOwner} />, which had its key.</p> : null}
    </div>
  );
}

/** FailedRollback says what could not be undone, by which execution, and whether that can be tried again. */
function FailedRollback({ failed: f }: { failed: NonNullable<Execution["failedRollback"]> }): VNode {
  return (
    <p>
      <strong>Not undone:</strong> step {f.step}
      {f.execution ? <>, which <ExecutionLink id={f.execution} /> was to undo; {f.state ? <>it ended <Word>{f.state}</Word></> : "it never began"}</> : null}
      {f.entities.map((e, n) => <>{n === 0 ? ": " : ", "}<EntityLink path={e} /></>)}.{" "}
      {f.obstacle ? <>The rollback cannot be tried again: {f.obstacle}</> : "Mend what it has failed for, then try the rollback again."}
    </p>
  );
}

type StepRun = Schemas["StepRun"];

/** none is the same list each time. */
const none: StepRun[] = [];

function Overview({ execution: x, live }: { execution: Execution; live: Live<Execution> }): VNode {
  const more = useLive(x.id, async (signal) => {
    const [steps, events] = await Promise.all([
      all("/workflow-execution/id/{id}/steps", { id: x.id }, { limit: 1000 }, signal),
      all("/workflow-execution/id/{id}/history", { id: x.id }, { limit: 1000 }, signal),
    ]);
    return { steps, events };
  }, x.version, x.endedAt !== null);
  const jobs = x.progress.jobs;
  const entities = Object.entries(x.entities).map(([type, n]) => `${n} ${type}`).join(", ");
  const outcomes = Object.entries(x.entityOutcomes);
  return (
    <>
      <section aria-label="Progress">
        <Bar total={jobs.total} done={jobs.completed} failed={jobs.failed} />
        <p>{jobs.completed} of {jobs.total} jobs completed, {jobs.failed} failed{jobs.unknown ? <>, {jobs.unknown} unknown</> : null}; {x.progress.steps.done} of {x.progress.steps.total} steps done{entities ? <>; {entities}</> : null}
          {outcomes.length > 0 ? <>; {outcomes.map(([o, n]) => <> {n} <Word>{o}</Word></>)}</> : null}</p>
      </section>
      {x.failedEntities.length > 0 ? (
        <section>
          <h2>Entities that failed</h2>
          <Table caption="Entities that failed" rows={x.failedEntities} empty="" columns={[
            { title: "Entity", cell: (f) => <a href={to(["executions", x.id, "jobs"], { entity: f.entity })}>{f.entity}</a> },
            { title: "Outcome", cell: (f) => <Word>{f.outcome}</Word> },
            { title: "Step", cell: (f) => f.step },
            { title: "Code", cell: (f) => f.code },
            { title: "Message", cell: (f) => f.message },
          ]} />
        </section>
      ) : null}
      {x.failedSteps.length > 0 ? (
        <section>
          <h2>Steps that failed</h2>
          <Table caption="Steps that failed" rows={x.failedSteps} empty="" columns={[
            { title: "Step", cell: (s) => <a href={to(["executions", x.id, "jobs"], { step: s.step, failed: "true" })}>{s.step}</a> },
            { title: "Jobs", number: true, cell: (s) => s.jobs + s.unmet },
            { title: "Why it completed", cell: (s) => left[s.because] },
            { title: "Execution started", cell: (s) => <ExecutionLink id={s.child?.id} /> },
            { title: "First failure", cell: (s) => (s.failure ? `${s.failure.code} ${s.failure.message}` : "") },
          ]} />
        </section>
      ) : null}
      <section>
        <h2>Where it stands</h2>
        <StateMachine state={x.state} events={more.data?.events ?? []} />
      </section>
      <section>
        <h2>Steps</h2>
        <Loaded live={more}>{({ steps }) => <Steps id={x.id} steps={steps} />}</Loaded>
      </section>
      <Waves steps={more.data?.steps ?? []} />
      <EntityMap execution={x} steps={more.data?.steps ?? none} />
      <section>
        <h2>Started with</h2>
        {Object.keys(x.labels).length > 0 ? <p>Labels: {Object.entries(x.labels).map(([k, v]) => `${k}=${v}`).join(", ")}</p> : null}
        <Value value={x.parameters} label="Parameters" />
        {x.metadata ? <Value value={x.metadata} label="Metadata" /> : null}
      </section>
      <p class="calm" id="as-of">{live.asOf ? `As of ${live.asOf.toLocaleTimeString()}` : ""}</p>
    </>
  );
}

/** way says where the execution went from a step, if not to the one behind it. */
function way(s: StepRun): string {
  const parts: string[] = [];
  if (s.rollout) parts.push(`wave ${s.rollout.wave} of ${s.rollout.of}, ${s.rollout.entities} entities`);
  if (s.rollout?.stoppedAt) parts.push(`stopped at wave ${s.rollout.stoppedAt}`);
  if (s.branch) parts.push(`branch ${s.branch}`);
  if (s.index !== null) parts.push(`index ${s.index}${s.item ? ` (${s.item})` : ""}`);
  if (s.wait) parts.push(`${s.wait.open ? "waits" : "waited"} for ${s.wait.kind}${s.wait.lapsed ? " until its deadline" : ""}`);
  if (s.repeat) parts.push(`iteration ${s.repeat}`);
  if (s.route) parts.push(`case ${s.route.case} (${s.route.when ?? "always"})`);
  if (s.handled) parts.push(`${s.error?.code ?? "failure"} handled by case ${s.handled.case} of ${s.handled.step}`);
  for (const e of s.caseErrors) parts.push(`case ${e.case} of ${e.step} had no value${e.message ? `: ${e.message}` : ""}`);
  if (s.next) parts.push(`next ${s.next}`);
  if (s.superseded) parts.push("repeated by a later try");
  return parts.join(", ");
}

function Steps({ id, steps }: { id: string; steps: StepRun[] }): VNode {
  return (
    <Table caption="Steps" rows={steps} empty="It has not entered a step yet." columns={[
      { title: "Step", cell: (s) => (s.kind ? <a href={to(["executions", id, "jobs"], { step: s.step, kind: s.kind })}>{s.step}</a> : s.step) },
      { title: "Does", cell: (s) => (s.wave ? `${s.kind} wave ${s.wave}` : s.kind) },
      { title: "Status", cell: (s) => <Word>{s.status}</Word> },
      { title: "Progress", cell: (s) => (s.jobs.total > 0 ? <Bar total={s.jobs.total} done={s.jobs.completed} failed={s.jobs.failed} /> : null) },
      { title: "Jobs", number: true, cell: (s) => s.jobs.total },
      { title: "Completed", number: true, cell: (s) => s.jobs.completed },
      { title: "Failed", number: true, cell: (s) => s.jobs.failed },
      { title: "Unknown", number: true, cell: (s) => s.jobs.unknown ?? 0 },
      { title: "Skipped", number: true, cell: (s) => s.skipped },
      { title: "Went on", cell: (s) => way(s) },
      { title: "Started", cell: (s) => (s.child ? <ExecutionLink id={s.child.id} /> : null) },
      { title: "Entered", cell: (s) => time(s.enteredAt) },
      { title: "Took", cell: (s) => duration(s.enteredAt, s.endedAt) },
    ]} />
  );
}
