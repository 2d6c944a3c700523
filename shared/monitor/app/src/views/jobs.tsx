// The jobs of an execution: a table of any length, and one job in full.
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { all, type Execution, type Job } from "../api";
import { useLive } from "../live";
import { go, type Route, to } from "../route";
import { duration, EntityLink, Field, ProblemText, time, Value, VirtualTable, Word } from "../ui";

const filters = ["step", "entity", "state", "kind", "attempts", "failed"] as const;

export const subject = (j: Job): string => (j.entity ? `${j.entity.type}/${j.entity.id}` : j.item !== null ? `item ${j.item}${j.itemText ? ` ${j.itemText}` : ""}` : "global");

export function Jobs({ execution: x, route }: { execution: Execution; route: Route }): VNode {
  const path = ["executions", x.id, "jobs"];
  const query: Record<string, string | undefined> = {};
  for (const f of [...filters, "job"]) query[f] = route.query.get(f) ?? undefined;
  const { job, ...filter } = query;
  const set = (field: string) => (value: string) => go(path, { ...filter, [field]: value });
  const [partial, setPartial] = useState<Job[]>([]);
  const loaded = useRef(false);
  const live = useLive(`${x.id} ${JSON.stringify(filter)}`, async (signal) => {
    const jobs = await all("/workflow-execution/id/{id}/jobs", { id: x.id }, { ...filter, attempts: filter.attempts ?? "last", limit: 1000 }, signal,
      (some) => { if (!loaded.current) setPartial([...some]); });
    loaded.current = true;
    return jobs;
  }, x.endedAt ? x.version : 0, x.endedAt !== null);
  const jobs = live.data ?? partial;
  const chosen = job ? jobs.find((j) => j.id === job) : undefined;
  return (
    <section>
      <h2>Jobs</h2>
      <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
        <Field label="Step" value={filter.step ?? ""} onChange={set("step")} />
        <Field label="Entity" value={filter.entity ?? ""} onChange={set("entity")} hint="type/id" />
        <Field label="State" value={filter.state ?? ""} onChange={set("state")} options={["", "PENDING", "CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "UNKNOWN"]} />
        <Field label="Kind" value={filter.kind ?? ""} onChange={set("kind")} options={["", "ACQUIRE", "EXECUTE", "ROLLBACK"]} />
        <Field label="Attempts" value={filter.attempts ?? ""} onChange={set("attempts")} options={["", "all"]} none="last" />
        <Field label="Failures" value={filter.failed ?? ""} onChange={set("failed")} options={["", "true"]} none="with the others" words={{ true: "only what is left" }} />
        <a class="button" href={to(path)}>Clear</a>
      </form>
      <ProblemText error={live.error} />
      {chosen ? <JobDetail job={chosen} at={(id) => to(path, { step: filter.step, entity: filter.entity, attempts: "all", job: id })} close={to(path, filter)} /> : null}
      <p role="status">{jobs.length} jobs{live.data || live.error ? "" : ", loading more"}</p>
      <VirtualTable caption="Jobs" kind="jobs" rows={jobs} empty="There are no such jobs." chosen={(j) => j.id === job} columns={[
        { title: "Subject", cell: (j) => <a href={to(path, { ...filter, job: j.id })}>{subject(j)}</a> },
        { title: "Step", cell: (j) => j.step },
        { title: "Kind", cell: (j) => (j.wave ? `${j.kind} ${j.wave}` : j.kind) },
        { title: "State", cell: (j) => <Word>{j.state}</Word> },
        { title: "Outcome", cell: (j) => <Word>{j.outcome}</Word> },
        { title: "Attempt", cell: (j) => `${j.attempt}${j.replacedBy ? ", tried again" : ""}` },
        { title: "Worker", cell: (j) => j.worker },
        { title: "Took", cell: (j) => (j.startedAt ? duration(j.startedAt, j.endedAt) : "") },
        { title: "Error", cell: (j) => (j.error ? `${j.error.code} ${j.error.message}` : "") },
      ]} />
    </section>
  );
}

function JobDetail({ job: j, at, close }: { job: Job; at: (id: string) => string; close: string }): VNode {
  const other = (id: string, word: string) => <a href={at(id)}>{word}</a>;
  return (
    <article class="card" aria-label="Job" id="job">
      <h3>{subject(j)} in {j.step} <Word>{j.state}</Word></h3>
      <dl class="pairs">
        <dt>Id</dt><dd class="id">{j.id}</dd>
        <dt>Kind</dt><dd>{j.kind}{j.wave ? `, wave ${j.wave}` : ""}</dd>
        <dt>Attempt</dt><dd>{j.attempt}{j.replaces ? <>, {other(j.replaces, "the one before")}</> : null}{j.replacedBy ? <>, {other(j.replacedBy, "the next one")}</> : null}</dd>
        {j.entity ? <><dt>Entity</dt><dd><EntityLink path={subject(j)} /></dd></> : null}
        <dt>Worker</dt><dd>{j.worker ? <a href={to(["workers"])}>{j.worker}</a> : "none yet"}</dd>
        <dt>Lock token</dt><dd>{j.token ?? "none"}</dd>
        <dt>Created</dt><dd>{time(j.createdAt)}</dd>
        <dt>Claimed</dt><dd>{time(j.claimedAt)}</dd>
        <dt>Started</dt><dd>{time(j.startedAt)}</dd>
        <dt>Ended</dt><dd>{time(j.endedAt)} {j.endedAt ? `after ${duration(j.createdAt, j.endedAt)}` : ""}</dd>
        <dt>Outcome</dt><dd><Word>{j.outcome}</Word></dd>
      </dl>
      {j.error ? <><h4>Error</h4><p><strong>{j.error.code}</strong> {j.error.message}{j.error.retryable ? " (a retry can help)" : ""}</p><Value value={j.error.details} label="Details of the error" /></> : null}
      {j.logs.length > 0 || j.logsDropped > 0 ? <Logs job={j} /> : null}
      {j.parameters !== null && j.parameters !== undefined ? <><h4>Parameters</h4><Value value={j.parameters} label="Parameters" /></> : null}
      {j.result !== null && j.result !== undefined ? <><h4>Result</h4><Value value={j.result} label="Result" /></> : null}
      <p><a href={close}>Close</a></p>
    </article>
  );
}

/** Logs are the lines that a job has logged, and how many of them are not kept. */
function Logs({ job: j }: { job: Job }): VNode {
  return (
    <>
      <h4>Log</h4>
      {j.logsDropped > 0 ? <p class="calm">{j.logsDropped} earlier {j.logsDropped === 1 ? "line is" : "lines are"} not kept.</p> : null}
      <ol class="log" aria-label="Log of the job" tabIndex={0}>
        {j.logs.map((l) => <li>{time(l.at)} <Word>{l.level}</Word> {l.text}</li>)}
      </ol>
    </>
  );
}
