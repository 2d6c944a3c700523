// The inventory, one entity, and what failed lately.
import type { VNode } from "preact";
import { all, get, Refusal } from "../api";
import { useLive } from "../live";
import { go, type Route, to } from "../route";
import { duration, EntityLink, ExecutionLink, Field, Loaded, name, Pages, Table, time, Value, Word } from "../ui";

export function Entities({ route }: { route: Route }): VNode {
  const [, type, id] = route.path;
  return type && id ? <Entity type={type} id={id} /> : <List route={route} />;
}

function List({ route }: { route: Route }): VNode {
  const path = ["entities"];
  const query: Record<string, string | undefined> = {};
  for (const f of ["type", "group", "query", "page"]) query[f] = route.query.get(f) ?? undefined;
  const set = (field: string) => (value: string) => go(path, { ...query, page: undefined, [field]: value });
  const types = useLive("types", (signal) => all("/entities/types", undefined, { limit: 1000 }, signal));
  const type = query.type ?? types.data?.[0];
  const live = useLive(JSON.stringify([type, query]), async (signal) => (type
    ? get("/entities", undefined, { type, group: query.group?.split(/[ ,]+/).filter(Boolean), query: query.query, limit: 100, pageToken: query.page }, signal)
    : { items: [], nextPageToken: null }));
  return (
    <>
      <h1>Entities</h1>
      <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
        <Field label="Type" value={type ?? ""} onChange={set("type")} options={types.data ?? [type ?? ""]} />
        <Field label="Group" value={query.group ?? ""} onChange={set("group")} />
        <Field label="Query" value={query.query ?? ""} onChange={set("query")} hint={'entity.site == "zrh"'} />
        <a class="button" href={to(path)}>Clear</a>
      </form>
      <Loaded live={live}>{(page) => (
        <>
          <Table caption="Entities" rows={page.items} empty="There are no such entities." columns={[
            { title: "Entity", cell: (e) => <EntityLink path={`${e.type}/${e.id}`} /> },
            { title: "Groups", cell: (e) => e.groups.join(", ") },
            { title: "Attributes", cell: (e) => <code>{JSON.stringify(e.attributes).slice(0, 200)}</code> },
            { title: "Version", number: true, cell: (e) => e.version },
          ]} />
          <Pages path={path} query={query} next={page.nextPageToken} />
        </>
      )}</Loaded>
    </>
  );
}

/** orNothing is undefined where the service has none: a lock that was never taken, an entity that was deleted. */
async function orNothing<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (refusal) {
    if (refusal instanceof Refusal && refusal.status === 404) return null;
    throw refusal;
  }
}

function Entity({ type, id }: { type: string; id: string }): VNode {
  const live = useLive(`${type}/${id}`, async (signal) => {
    const [entity, lock, executions] = await Promise.all([
      orNothing(get("/entities/{type}/{id}", { type, id }, undefined, signal)),
      orNothing(get("/locks/{type}/{id}", { type, id }, undefined, signal)),
      orNothing(get("/entities/{type}/{id}/executions", { type, id }, undefined, signal)),
    ]);
    return { entity, lock, executions };
  });
  return (
    <>
      <h1>{type}/{id}</h1>
      <Loaded live={live}>{({ entity, lock, executions }) => (
        <>
          {entity ? (
            <>
              <p class="calm">Version {entity.version}{entity.groups.length > 0 ? <>, in {entity.groups.map((g) => <> <a href={to(["entities"], { type, group: g })}>{g}</a></>)}</> : null}</p>
              <h2>Attributes</h2>
              <Value value={entity.attributes} label="Attributes" />
            </>
          ) : <p>The inventory has no such entity, or not any more.</p>}
          <h2>Lock</h2>
          {lock?.heldBy || lock?.reservedBy ? (
            <>
              <p>{lock.heldBy ? <>Held by <ExecutionLink id={lock.heldBy} /></> : <>Reserved by <ExecutionLink id={lock.reservedBy} /></>} ({lock.mode}){lock.since ? <> since {time(lock.since)}</> : null}, token {lock.token}.</p>
              {lock.waiting.length > 0 ? <ul>{lock.waiting.map((w) => <li><ExecutionLink id={w.execution} /> waits for it{w.since ? `, for ${duration(w.since)}` : ""}</li>)}</ul> : null}
            </>
          ) : <p>Nobody holds it.</p>}
          <h2>Executions that touched it</h2>
          <Table caption="Executions that touched it" rows={executions?.items ?? []} empty="None has locked it." columns={[
            { title: "Execution", cell: (x) => <ExecutionLink id={x.id} /> },
            { title: "Workflow", cell: (x) => (x.workflow ? name(x.workflow) : "removed") },
            { title: "State", cell: (x) => <Word>{x.state}</Word> },
            { title: "Outcome of this entity", cell: (x) => <Word>{x.entityOutcome}</Word> },
            { title: "Created", cell: (x) => time(x.createdAt) },
            { title: "Ended", cell: (x) => time(x.endedAt) },
            { title: "Jobs", cell: (x) => <a href={to(["executions", x.id, "jobs"], { entity: `${type}/${id}` })}>jobs</a> },
          ]} />
        </>
      )}</Loaded>
    </>
  );
}

export function Failures({ route }: { route: Route }): VNode {
  const path = ["failures"];
  const query: Record<string, string | undefined> = {};
  for (const f of ["days", "workflow", "group", "page"]) query[f] = route.query.get(f) ?? undefined;
  const days = Number(query.days ?? 7);
  const set = (field: string) => (value: string) => go(path, { ...query, page: undefined, [field]: value });
  const live = useLive(JSON.stringify(query), (signal) => get("/failures", undefined, {
    since: new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000 - days * 86_400_000).toISOString(), workflow: query.workflow,
    group: query.group?.split(/[ ,]+/).filter(Boolean), limit: 100, pageToken: query.page,
  }, signal));
  return (
    <>
      <h1>Failures of the last {days} days</h1>
      <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
        <Field label="Days" value={String(days)} onChange={set("days")} options={["1", "7", "14", "30"]} />
        <Field label="Workflow" value={query.workflow ?? ""} onChange={set("workflow")} hint="package/name" />
        <Field label="Group" value={query.group ?? ""} onChange={set("group")} />
        <a class="button" href={to(path)}>Clear</a>
      </form>
      <Loaded live={live}>{(page) => (
        <>
          <Table caption="Failures" rows={page.items} empty="No entity has failed." columns={[
            { title: "Entity", cell: (f) => <EntityLink path={f.entity} /> },
            { title: "Outcome", cell: (f) => <Word>{f.outcome}</Word> },
            { title: "Succeeded later", cell: (f) => (f.succeededLater ? <>yes, in <ExecutionLink id={f.succeededLater} /></> : "no") },
            { title: "Step", cell: (f) => f.step },
            { title: "Code", cell: (f) => f.code },
            { title: "Message", cell: (f) => f.message },
            { title: "Workflow", cell: (f) => name(f.workflow) },
            { title: "Execution", cell: (f) => <ExecutionLink id={f.execution} /> },
            { title: "Ended", cell: (f) => time(f.endedAt) },
          ]} />
          {page.items.length === 0 && page.nextPageToken ? <p>There may be more on the next page.</p> : null}
          <Pages path={path} query={query} next={page.nextPageToken} />
        </>
      )}</Loaded>
    </>
  );
}
