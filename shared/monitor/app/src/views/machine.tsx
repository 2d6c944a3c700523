// The states of an execution as a drawing: the present one is lit, the moves that it made have their times.
import type { VNode } from "preact";
import type { Schemas } from "../api";
import { moves, type State, states } from "../lifecycle.gen";
import { clock, tone } from "../ui";

/** places is the column and the row of each state. A state without one does not compile. */
const places: Record<State, [number, number]> = {
  NEW: [0, 0], VALID: [1, 0], BLOCKED_WAITING: [1, 1], READY: [2, 0], RESOURCE_DISCOVERY: [3, 0], RESOURCES_DISCOVERED: [4, 0],
  SCHEDULED: [5, 0], LOCKING: [5, 1], LOCKED: [4, 1], RUNNING: [3, 1], WAITING: [2, 1],
  CANCELLING: [2, 2], ERROR: [3, 2], ROLLBACK: [4, 2],
  CANCELLED: [1, 3], COMPLETED: [2, 3], FAILED_SAFE: [3, 3], FAILED_UNSAFE: [4, 3],
  CANCELLED_ACK: [1, 4], COMPLETED_ACK: [2, 4], FAILED_SAFE_ACK: [3, 4], FAILED_UNSAFE_ACK: [4, 4],
};
const [wide, high, stepX, stepY] = [152, 30, 180, 78];
const x = (s: State) => places[s][0] * stepX + wide / 2 + 6;
const y = (s: State) => places[s][1] * stepY + high / 2 + 10;

/** edge is a line between the borders of two boxes, bent a little so that there and back differ. */
function edge(from: State, to: State): { d: string; at: [number, number] } {
  const [dx, dy] = [x(to) - x(from), y(to) - y(from)];
  const cut = (dx0: number, dy0: number) => 1 / Math.max(Math.abs(dx0) / (wide / 2), Math.abs(dy0) / (high / 2));
  const k = cut(dx, dy);
  const [x1, y1, x2, y2] = [x(from) + dx * k, y(from) + dy * k, x(to) - dx * k, y(to) - dy * k];
  const long = Math.abs(places[to][0] - places[from][0]) > 1 || Math.abs(places[to][1] - places[from][1]) > 1;
  const bend = long ? 0.16 : 0.04;
  const [cx, cy] = [(x1 + x2) / 2 - (y2 - y1) * bend, (y1 + y2) / 2 + (x2 - x1) * bend];
  return { d: `M${x1},${y1} Q${cx},${cy} ${x2},${y2}`, at: [(x1 + 2 * cx + x2) / 4, (y1 + 2 * cy + y2) / 4] };
}

export function StateMachine({ state, events }: { state: State; events: Schemas["Event"][] }): VNode {
  const taken = events.filter((e) => e.layer === "execution" && e.to && e.to in states && e.from !== e.to);
  const last = new Map<string, Schemas["Event"]>();
  for (const e of taken) if (e.from && e.from in states) last.set(`${e.from} ${e.to}`, e);
  const visited = new Set(taken.map((e) => e.to));
  // Moves that many states have, such as a cancel, are drawn only from the present state.
  const sources = new Map<string, number>();
  for (const m of moves) sources.set(`${m.on} ${m.to}`, (sources.get(`${m.on} ${m.to}`) ?? 0) + 1);
  const drawn = new Map<string, { from: State; to: State; next: boolean }>();
  for (const m of moves) {
    const next = m.from === state;
    if (m.from !== m.to && (next || sources.get(`${m.on} ${m.to}`)! < 5)) drawn.set(`${m.from} ${m.to}`, { from: m.from, to: m.to, next });
  }
  for (const key of last.keys()) {
    const [from, to] = key.split(" ") as [State, State];
    drawn.set(key, { from, to, next: false });
  }
  const order = [...drawn].sort(([a], [b]) => Number(last.has(a)) - Number(last.has(b)));
  return (
    <>
      <div class="wide" role="region" aria-label="State machine" tabIndex={0}>
        <svg class="machine" viewBox="0 0 1072 366" role="img" aria-label={`The execution is ${state}`}>
          <defs>
            {["maybe", "next", "taken"].map((k) => (
              <marker id={`tip-${k}`} class={`tip ${k}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" /></marker>
            ))}
          </defs>
          {order.map(([key, m]) => {
            const kind = last.has(key) ? "taken" : m.next ? "next" : "maybe";
            return <path class={`edge ${kind}`} d={edge(m.from, m.to).d} marker-end={`url(#tip-${kind})`} />;
          })}
          {(Object.keys(places) as State[]).map((s) => (
            <g class={`state ${s === state ? `lit ${tone(s)}` : visited.has(s) ? "visited" : ""}`} data-state={s}>
              <rect x={x(s) - wide / 2} y={y(s) - high / 2} width={wide} height={high} rx="6" />
              <text x={x(s)} y={y(s) + 4}>{s}</text>
            </g>
          ))}
          {[...last].map(([key, e]) => {
            const [from, to] = key.split(" ") as [State, State];
            const [ax, ay] = edge(from, to).at;
            const beside = places[from][1] === places[to][1];
            return <text class="at" x={ax + (beside ? 0 : 4)} y={ay + (beside ? 28 : 4)} text-anchor={beside ? "middle" : "start"}>{clock(e.at)}</text>;
          })}
        </svg>
      </div>
      <details>
        <summary>The same as a list</summary>
        <ol>{taken.map((e) => <li>{clock(e.at)}: {e.from ? `${e.from} to ` : ""}{e.to} ({e.type}{e.actor ? `, ${e.actor}` : ""})</li>)}</ol>
        <p>From {state} it can go to {[...new Set(moves.filter((m) => m.from === state && m.to !== state).map((m) => m.to))].join(", ") || "no other state"}.</p>
      </details>
    </>
  );
}
