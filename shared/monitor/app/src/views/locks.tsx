// Who holds which entity, and who waits for whom.
import type { VNode } from "preact";
import { all, type Schemas } from "../api";
import { useLive } from "../live";
import { to } from "../route";
import { duration, EntityLink, ExecutionLink, Loaded, time, VirtualTable } from "../ui";

type Lock = Schemas["Lock"];

/** most is how many executions the drawing has. The table below has all. */
const most = 60;

interface Wait { from: string; to: string; entities: string[] }

/** waits is who waits for whom, each pair once. */
function waits(locks: Lock[]): Wait[] {
  const pairs = new Map<string, Wait>();
  for (const l of locks) {
    const holder = l.heldBy ?? l.reservedBy;
    for (const w of l.waiting) {
      if (!holder || w.execution === holder) continue;
      const key = `${w.execution} ${holder}`;
      const pair = pairs.get(key) ?? { from: w.execution, to: holder, entities: [] };
      pair.entities.push(`${l.entity.type}/${l.entity.id}`);
      pairs.set(key, pair);
    }
  }
  return [...pairs.values()];
}

export function Locks(): VNode {
  const live = useLive("locks", (signal) => all("/locks", undefined, { limit: 1000 }, signal));
  return (
    <>
      <h1>Locks</h1>
      <Loaded live={live}>{(locks) => (
        <>
          <h2>Who waits for whom</h2>
          <Graph waits={waits(locks)} />
          <h2>Who holds what</h2>
          <VirtualTable caption="Locks" kind="locks" rows={locks} empty="There are no locks." columns={[
            { title: "Entity", cell: (l) => <EntityLink path={`${l.entity.type}/${l.entity.id}`} /> },
            { title: "Held by", cell: (l) => <ExecutionLink id={l.heldBy} /> },
            { title: "Reserved by", cell: (l) => <ExecutionLink id={l.reservedBy} /> },
            { title: "Mode", cell: (l) => l.mode },
            { title: "Since", cell: (l) => (l.since ? `${time(l.since)}, for ${duration(l.since)}` : "") },
            { title: "Token", number: true, cell: (l) => l.token },
            { title: "First that waits", cell: (l) => (l.waiting[0] ? <><ExecutionLink id={l.waiting[0].execution} />{l.waiting[0].since ? `, for ${duration(l.waiting[0].since)}` : ""}</> : "") },
            { title: "Wait", number: true, cell: (l) => l.waiting.length },
          ]} />
        </>
      )}</Loaded>
    </>
  );
}

/** Graph draws who holds at the left, who waits for them to the right, and so on. */
function Graph({ waits: pairs }: { waits: Wait[] }): VNode {
  if (pairs.length === 0) return <p class="calm">No execution waits for another one.</p>;
  const ids = [...new Set(pairs.flatMap((p) => [p.to, p.from]))].slice(0, most);
  const depth = new Map<string, number>();
  const measure = (id: string, seen: string[]): number => {
    if (seen.includes(id)) return 0;
    const known = depth.get(id);
    if (known !== undefined) return known;
    const d = Math.max(-1, ...pairs.filter((p) => p.from === id).map((p) => measure(p.to, [...seen, id]))) + 1;
    depth.set(id, d);
    return d;
  };
  const rows: number[] = [];
  const at = new Map(ids.map((id) => {
    const d = measure(id, []);
    rows[d] = (rows[d] ?? 0) + 1;
    return [id, [d * 360 + 10, (rows[d]! - 1) * 52 + 10] as const];
  }));
  const [wide, high] = [rows.length * 360, Math.max(...rows) * 52 + 10];
  return (
    <>
      <div class="wide" role="region" aria-label="Who waits for whom" tabIndex={0}>
        <svg class="waits" viewBox={`0 0 ${wide} ${high}`} width={wide} height={high}>
          <title>Each arrow leads from who waits to who holds</title>
          <defs><marker id="tip-waits" class="tip taken" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" /></marker></defs>
          {pairs.map((p) => {
            const [a, b] = [at.get(p.from), at.get(p.to)];
            if (!a || !b) return null;
            return <path class="edge taken" d={`M${a[0]},${a[1] + 16} C${a[0] - 30},${a[1] + 16} ${b[0] + 330},${b[1] + 16} ${b[0] + 300},${b[1] + 16}`} marker-end="url(#tip-waits)" />;
          })}
          {ids.map((id) => {
            const [px, py] = at.get(id)!;
            return <a href={to(["executions", id])}><g class="state visited"><rect x={px} y={py} width="298" height="32" rx="6" /><text x={px + 149} y={py + 21}>{id}</text></g></a>;
          })}
        </svg>
      </div>
      <ul>{pairs.map((p) => <li><ExecutionLink id={p.from} /> waits for <ExecutionLink id={p.to} />: {p.entities.slice(0, 5).join(", ")}{p.entities.length > 5 ? ` and ${p.entities.length - 5} more` : ""}</li>)}</ul>
    </>
  );
}
