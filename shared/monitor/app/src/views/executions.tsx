// The list of executions.
import type { VNode } from "preact";
import { get, type Schemas } from "../api";
import { states } from "../lifecycle.gen";
import { useLive } from "../live";
import { go, type Route, to } from "../route";
import { Bar, clock, duration, ExecutionLink, Field, Loaded, name, Pages, Table, time, Word } from "../ui";

const filters = ["state", "status", "outcome", "workflow", "label", "key", "waiting", "region", "sort", "createdAfter", "createdBefore"] as const;
const path = ["executions"];
/** waits are the kinds of wait that lists are filtered by. */
const waits: Schemas["ListedWait"][] = ["INPUT", "SIGNAL", "TIMER", "CONDITION", "CHILD", "CHILD_INPUT", "STEP", "HOLD", "LOCK", "WORKER", "ACKNOWLEDGE", "ENGINE"];

export function Executions({ route }: { route: Route }): VNode {
  const query: Record<string, string | undefined> = {};
  for (const f of [...filters, "page"]) query[f] = route.query.get(f) ?? undefined;
  const set = (field: string) => (value: string) => go(path, { ...query, page: undefined, [field]: value });
  const live = useLive(JSON.stringify(query), (signal) => get("/workflow-execution", undefined, {
    state: query.state as never, status: query.status as never, outcome: query.outcome as never,
    workflow: query.workflow, key: query.key, waiting: query.waiting as never, region: query.region, sort: query.sort as never, label: query.label?.split(/[ ,]+/).filter(Boolean),
    createdAfter: atUTC(query.createdAfter), createdBefore: atUTC(query.createdBefore), limit: 50, pageToken: query.page,
  }, signal));
  return (
    <>
      <h1>Executions</h1>
      <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
        <Field label="Status" value={query.status ?? ""} onChange={set("status")} options={["", "PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]} />
        <Field label="State" value={query.state ?? ""} onChange={set("state")} options={["", ...Object.keys(states)]} />
        <Field label="Outcome" value={query.outcome ?? ""} onChange={set("outcome")} options={["", "SUCCEEDED", "PARTIAL", "FAILED_SAFE", "FAILED_UNSAFE", "CANCELLED", "PROBED"]} />
        <Field label="Workflow" value={query.workflow ?? ""} onChange={set("workflow")} hint="package/name" />
        <Field label="Label" value={query.label ?? ""} onChange={set("label")} hint="key=value" />
        <Field label="Key" value={query.key ?? ""} onChange={set("key")} hint="business key" />
        <Field label="Waits for" value={query.waiting ?? ""} onChange={set("waiting")} options={["", ...waits]} none="anything or nothing" />
        <Field label="Region" value={query.region ?? ""} onChange={set("region")} />
        <Field label="Created after" type="datetime-local" value={query.createdAfter ?? ""} onChange={set("createdAfter")} />
        <Field label="Created before" type="datetime-local" value={query.createdBefore ?? ""} onChange={set("createdBefore")} />
        <a class="button" href={to(path)}>Clear</a>
      </form>
      <Loaded live={live}>{(page) => (
        <>
          <Table caption="Executions" rows={page.items} empty="There are no such executions." columns={[
            { title: "Execution", cell: (x) => <ExecutionLink id={x.id} /> },
            { title: "Workflow", cell: (x) => name(x.workflow) },
            { title: "State", cell: (x) => <Word>{x.state}</Word> },
            { title: "Outcome", cell: (x) => <Word>{x.outcome}</Word> },
            { title: "Progress", cell: (x) => <Bar total={x.progress.jobs.total} done={x.progress.jobs.completed} failed={x.progress.jobs.failed} /> },
            { title: "Jobs", number: true, cell: (x) => `${x.progress.jobs.completed}/${x.progress.jobs.total}` },
            { title: "Failed", number: true, cell: (x) => x.progress.jobs.failed },
            { title: "Step", cell: (x) => x.currentStep },
            { title: "Labels", cell: (x) => Object.entries(x.labels).map(([k, v]) => `${k}=${v}`).join(" ") },
            { title: "Created", sorted: query.sort === "createdAt:asc" ? "ascending" : "descending", sort: () => go(path, { ...query, page: undefined, sort: query.sort === "createdAt:asc" ? undefined : "createdAt:asc" }), cell: (x) => time(x.createdAt) },
            { title: "Took", cell: (x) => duration(x.createdAt, x.endedAt) },
          ]} />
          {page.skipped?.length ? <p>Left out, because a newer release has written them: {page.skipped.join(", ")}</p> : null}
          <Pages path={path} query={query} next={page.nextPageToken} />
        </>
      )}</Loaded>
      <p class="calm" id="as-of">{live.asOf ? `As of ${clock(live.asOf.toISOString())}` : ""}</p>
    </>
  );
}

/** atUTC is a time of the reader's clock as the service wants it. */
function atUTC(local: string | undefined): string | undefined {
  const at = local ? new Date(local) : undefined;
  return at && !isNaN(at.getTime()) ? at.toISOString() : undefined;
}
