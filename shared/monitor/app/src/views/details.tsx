// The history, the result and the cost of an execution.
import type { VNode } from "preact";
import { all, type Execution, get } from "../api";
import { useLive } from "../live";
import { type Route, to } from "../route";
import { EntityLink, Loaded, Table, time, Value, VirtualTable, Word } from "../ui";

export function History({ execution, route }: { execution: Execution; route: Route }): VNode {
  const path = ["executions", execution.id, "history"];
  const chosen = route.query.get("event");
  const live = useLive(execution.id, (signal) => all("/workflow-execution/id/{id}/history", { id: execution.id }, { limit: 1000 }, signal), execution.version, execution.endedAt !== null);
  return (
    <section>
      <h2>History</h2>
      <Loaded live={live}>{(events) => (
        <>
        {events.filter((e) => String(e.sequence) === chosen).map((e) => (
          <article class="card" aria-label="Event">
            <h3>{e.type}, number {e.sequence}</h3>
            <p>{time(e.at)} {e.actor}</p>
            <Value value={e.data} label="Data of the event" />
            <p><a href={to(path)}>Close</a></p>
          </article>
        ))}
        <VirtualTable caption="History" kind="history" rows={events} empty="Nothing has happened yet." chosen={(e) => String(e.sequence) === chosen} columns={[
          { title: "Number", number: true, cell: (e) => e.sequence },
          { title: "Time", cell: (e) => time(e.at) },
          { title: "Event", cell: (e) => e.type },
          { title: "From", cell: (e) => <Word>{e.from}</Word> },
          { title: "To", cell: (e) => <Word>{e.to}</Word> },
          { title: "Step", cell: (e) => e.step },
          { title: "Entity", cell: (e) => <EntityLink path={e.entity} /> },
          { title: "By", cell: (e) => e.actor },
          { title: "More", cell: (e) => (e.data && Object.keys(e.data as object).length > 0 ? <a href={to(path, { event: String(e.sequence) })}>{JSON.stringify(e.data)}</a> : null) },
        ]} />
        </>
      )}</Loaded>
    </section>
  );
}

export function Result({ execution }: { execution: Execution }): VNode {
  const live = useLive(execution.id, (signal) => get("/workflow-execution/id/{id}/result", { id: execution.id }, undefined, signal), execution.version, execution.endedAt !== null);
  return (
    <section>
      <h2>Result</h2>
      <Loaded live={live}>{(r) => (
        <>
          {r.truncated ? <p>The result is too large to show here: read the jobs instead.</p> : null}
          {r.output !== null && r.output !== undefined && JSON.stringify(r.output) !== "{}" ? <><h3>Output</h3><Value value={r.output} label="Output" /></> : null}
          {Object.entries(r.steps).map(([label, s]) => (
            <details>
              <summary>{label} <Word>{s.status}</Word></summary>
              <Value value={s.result ?? s.results} label={`Result of ${label}`} />
            </details>
          ))}
        </>
      )}</Loaded>
    </section>
  );
}

const dollars = (n: number): string => `$${n.toFixed(n < 0.01 ? 6 : 2)}`;

export function CostLines({ lines, total, asOf }: { lines: { what: string; quantity: number; unit: string; dollars: number }[]; total: number; asOf: string }): VNode {
  return (
    <>
      <Table caption="Cost" rows={lines} empty="Nothing was metered." columns={[
        { title: "What", cell: (l) => l.what },
        { title: "Quantity", number: true, cell: (l) => l.quantity.toLocaleString() },
        { title: "Unit", cell: (l) => l.unit },
        { title: "Price", number: true, cell: (l) => dollars(l.dollars) },
      ]} />
      <p><strong>{dollars(total)}</strong> in all, with the prices of {asOf}.</p>
    </>
  );
}

export function Cost({ id }: { id: string }): VNode {
  const live = useLive(id, (signal) => get("/workflow-execution/id/{id}/cost", { id }, undefined, signal));
  return <section><h2>Cost</h2><Loaded live={live}>{(c) => <CostLines lines={c.lines} total={c.dollars} asOf={c.pricesAsOf} />}</Loaded></section>;
}
