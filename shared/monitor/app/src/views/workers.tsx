// Workers and the function blocks that they serve.
import type { VNode } from "preact";
import { all, get, type Schemas } from "../api";
import { useLive } from "../live";
import { type Route, to } from "../route";
import { duration, ExecutionLink, Loaded, Table, time, Value, Word } from "../ui";

/** Pack links to the execution that a pack is of. */
function Pack({ pack }: { pack: string }): VNode {
  const id = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(pack)?.[0];
  return id ? <div><ExecutionLink id={id} /> {pack.replace(id, "").replace(/^[^\w]+/, "")}</div> : <div>{pack}</div>;
}

function WorkerTable({ workers }: { workers: Schemas["Worker"][] }): VNode {
  return (
    <Table caption="Workers" rows={workers} empty="No worker has registered. The stock worker of a stage registers with its first pack." columns={[
      { title: "Worker", cell: (w) => <span class="id">{w.id}</span> },
      { title: "State", cell: (w) => <Word>{w.state}</Word> },
      { title: "Pool", cell: (w) => w.pool },
      { title: "Version", cell: (w) => w.version },
      { title: "Blocks", cell: (w) => w.blocks.join(", ") },
      { title: "Present packs", cell: (w) => w.jobs.map((p) => <Pack pack={p} />) },
      { title: "Last heartbeat", cell: (w) => (w.lastHeartbeat ? `${duration(w.lastHeartbeat)} ago` : "") },
      { title: "Registered", cell: (w) => time(w.registeredAt) },
    ]} />
  );
}

export function Workers(): VNode {
  const live = useLive("workers", (signal) => all("/workers", undefined, { limit: 1000 }, signal));
  const pools = useLive("pools", (signal) => get("/blackboard/jobs", undefined, undefined, signal));
  return (
    <>
      <h1>Workers</h1>
      <Loaded live={live}>{(workers) => <WorkerTable workers={workers} />}</Loaded>
      <h2>Pools</h2>
      <Loaded live={pools}>{(list) => (
        <Table caption="Pools" rows={list.items} empty="There are no pools." columns={[
          { title: "Pool", cell: (p) => p.pool },
          { title: "Queue", cell: (p) => (p.queue ? "yes" : "no") },
          { title: "Packs waiting", number: true, cell: (p) => p.waiting ?? "unknown" },
          { title: "Packs claimed", number: true, cell: (p) => p.claimed ?? "unknown" },
          { title: "Packs delayed", number: true, cell: (p) => p.delayed ?? "unknown" },
        ]} />
      )}</Loaded>
    </>
  );
}

const promises = (b: Schemas["Block"]): string => [b.pure ? "pure" : "", b.idempotent ? "idempotent" : "", b.reversible ? "reversible" : "", b.undoHarmless ? "undo harmless" : ""].filter(Boolean).join(", ") || "none: a failure after it is unsafe";

export function Blocks({ route }: { route: Route }): VNode {
  const live = useLive("blocks", (signal) => all("/function-blocks", undefined, { limit: 1000 }, signal));
  const chosen = route.path.length === 4 ? route.path.slice(1).join("/") : "";
  return (
    <>
      <h1>Function blocks</h1>
      <Loaded live={live}>{(blocks) => {
        const block = blocks.find((b) => `${b.package}/${b.name}/${b.version}` === chosen);
        return (
          <>
            {chosen && !block ? <p>There is no block {chosen}.</p> : null}
            {block ? <BlockDetail block={block} /> : null}
            <Table caption="Function blocks" rows={blocks} empty="No block is registered: `lockstep blocks register FILE`." columns={[
              { title: "Block", cell: (b) => <a href={to(["blocks", b.package, b.name, b.version])}>{b.package}/{b.name}:{b.version}</a> },
              { title: "Runs on", cell: (b) => b.runOn ?? "anything" },
              { title: "Promises", cell: (b) => promises(b) },
              { title: "Pool", cell: (b) => b.pool },
              { title: "Timeout", cell: (b) => b.timeout },
              { title: "Called at", cell: (b) => b.http?.url ?? (b.http?.endpoint ? `${b.http.endpoint}${b.http.path ?? ""}` : "") },
              { title: "Description", cell: (b) => b.description },
            ]} />
          </>
        );
      }}</Loaded>
    </>
  );
}

function BlockDetail({ block: b }: { block: Schemas["Block"] }): VNode {
  const params = { package: b.package, name: b.name, version: b.version };
  const live = useLive(JSON.stringify(params), (signal) => all("/function-blocks/{package}/{name}/{version}/workers", params, { limit: 1000 }, signal));
  return (
    <article class="card" aria-label="Function block">
      <h2>{b.package}/{b.name}:{b.version}</h2>
      <p>{b.description}</p>
      <h3>Parameters</h3><Value value={b.parameterSchema} label="Schema of the parameters" />
      <h3>Result</h3><Value value={b.resultSchema} label="Schema of the result" />
      <h3>Served by</h3><Loaded live={live}>{(workers) => <WorkerTable workers={workers} />}</Loaded>
      <p><a href={to(["blocks"])}>Close</a></p>
    </article>
  );
}
