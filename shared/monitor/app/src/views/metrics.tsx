// How executions have ended in the last days, and how long they took, by workflow.
import type { VNode } from "preact";
import { get } from "../api";
import { useLive } from "../live";
import { go, type Route } from "../route";
import { duration, Field, Loaded, Table } from "../ui";

const took = (seconds: number): string => duration(new Date(0).toISOString(), new Date(1000 * seconds).toISOString());

export function Metrics({ route }: { route: Route }): VNode {
  const days = route.query.get("days") ?? "7";
  const live = useLive(`metrics ${days}`, (signal) => get("/metrics/summary", undefined, { days: Number(days) }, signal));
  return (
    <>
      <h1>How executions end</h1>
      <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
        <Field label="Days" value={days} onChange={(value) => go(["metrics"], { days: value })} options={["1", "7", "30", "92"]} />
      </form>
      <Loaded live={live}>{(s) => (
        <>
          {s.counting ? null : <p role="note">Executions are not counted: the setting is observe.metrics.</p>}
          {s.complete ? null : <p role="note">There are more than one request counts: those of the days before {s.from} are missing.</p>}
          <Table caption="Ends by workflow" rows={s.workflows} empty={`Nothing that was counted has ended since ${s.from}.`} columns={[
            { title: "Workflow", cell: (w) => w.workflow },
            { title: "Ends", number: true, cell: (w) => w.count },
            { title: "Completed", number: true, cell: (w) => (w.partial > 0 ? `${w.ends.COMPLETED}, ${w.partial} in part` : w.ends.COMPLETED) },
            { title: "Failed safely", number: true, cell: (w) => w.ends.FAILED_SAFE },
            { title: "Failed unsafely", number: true, cell: (w) => w.ends.FAILED_UNSAFE },
            { title: "Cancelled", number: true, cell: (w) => w.ends.CANCELLED },
            { title: "Median", number: true, cell: (w) => took(w.seconds.median) },
            { title: "95 % within", number: true, cell: (w) => took(w.seconds.p95) },
            { title: "Longest", number: true, cell: (w) => took(w.seconds.max) },
          ]} />
        </>
      )}</Loaded>
    </>
  );
}
