// All entities of an execution at one glance: one square each, in the colour of its state.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { all, type Execution, type Job, type Schemas } from "../api";
import { useLive } from "../live";
import { to } from "../route";
import { useVirtual } from "../virtual";

/** kinds are what an entity can be, in the order of the legend; the CSS has a colour of each. */
const kinds = ["waiting", "pending", "running", "completed", "skipped", "failed", "unknown", "cancelled", "undoing", "undone", "stuck"] as const;
type Kind = (typeof kinds)[number];
const words: Record<Kind, string> = {
  waiting: "between steps", pending: "pending", running: "running", completed: "completed", skipped: "no job", failed: "failed", unknown: "outcome unknown",
  cancelled: "cancelled", undoing: "being undone", undone: "undone", stuck: "undo failed",
};

interface Square {
  entity: string;
  kind: Kind;
  step: string;
  try: number;
}

function kindOf(j: Job): Kind {
  if (j.kind === "ROLLBACK") return j.state === "COMPLETED" ? "undone" : j.state === "FAILED" || j.state === "UNKNOWN" ? "stuck" : "undoing";
  switch (j.state) {
    case "CLAIMED": case "RUNNING": return "running";
    case "PENDING": return "pending";
    case "COMPLETED": return "completed";
    case "FAILED": return "failed";
    case "CANCELLED": return "cancelled";
    default: return "unknown";
  }
}

/** squares takes the last job of each entity in its last try that no other attempt has replaced. */
function squares(jobs: Job[], steps: Schemas["StepRun"][]): Square[] {
  const tries = new Map(steps.map((s) => [`${s.step} ${s.visit} ${s.kind}`, s.try]));
  const byEntity = new Map<string, Square>();
  for (const j of jobs) {
    if (!j.entity || j.kind === "ACQUIRE" || j.replacedBy) continue;
    const entity = `${j.entity.type}/${j.entity.id}`;
    const before = byEntity.get(entity);
    const of = tries.get(`${j.step} ${j.visit} ${j.kind}`) ?? 1;
    if (before && of < before.try) continue;
    // A failure stays what is seen of an entity, until it is undone or tried again.
    if (before && of === before.try && (before.kind === "failed" || before.kind === "unknown") && j.kind === "EXECUTE") continue;
    byEntity.set(entity, { entity, kind: kindOf(j), step: j.step, try: of });
  }
  const natural = new Intl.Collator(undefined, { numeric: true });
  return [...byEntity.values()].sort((a, b) => natural.compare(a.entity, b.entity));
}

export function EntityMap({ execution: x, steps }: { execution: Execution; steps: Schemas["StepRun"][] }): VNode | null {
  const [step, setStep] = useState("");
  const [partial, setPartial] = useState<Job[]>([]);
  const first = useRef(true);
  const began = useRef(performance.now());
  const labels = [...new Set(steps.filter((s) => s.jobs.total > 0).map((s) => s.step))];
  const live = useLive(`${x.id} ${step}`, async (signal) => {
    const jobs = await all("/workflow-execution/id/{id}/jobs", { id: x.id }, { step: step || undefined, limit: 1000 }, signal,
      (some) => { if (first.current) setPartial([...some]); });
    first.current = false;
    return jobs;
  }, x.endedAt ? x.version : x.state, x.endedAt !== null);
  const shown = useMemo(() => squares(live.data ?? partial, steps), [live.data, partial, steps]);
  const [kind, setKind] = useState<Kind | "">("");
  if (shown.length === 0) return null;
  const counts = new Map<Kind, number>();
  for (const s of shown) counts.set(s.kind, (counts.get(s.kind) ?? 0) + 1);
  const open = (s: Square) => { location.hash = to(["executions", x.id, "jobs"], { entity: s.entity }); };
  const present = kinds.filter((k) => counts.has(k));
  return (
    <section id="map">
      <h2>Entities</h2>
      <div class="filters">
        <div class="field">
          <label for="map-step">Of step</label>
          <select id="map-step" value={step} onChange={(e) => setStep(e.currentTarget.value)}>
            <option value="">all steps</option>
            {labels.map((l) => <option value={l}>{l}</option>)}
          </select>
        </div>
        <ul class="legend" aria-label="Entities by state">
          {present.map((k) => (
            <li><button type="button" aria-pressed={k === kind} onClick={() => setKind(k === kind ? "" : k)}>
              <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true"><rect class={`map-${k}`} width="10" height="10" /></svg>
              {counts.get(k)} {words[k]}
            </button></li>
          ))}
        </ul>
      </div>
      <Squares squares={shown} only={kind} open={open} label={`${shown.length} entities: ${present.map((k) => `${counts.get(k)} ${words[k]}`).join(", ")}`} began={began.current} />
      {kind ? <Named id={x.id} squares={shown.filter((s) => s.kind === kind)} title={words[kind]} /> : <p class="calm">Choose a state to list its entities; click a square to see the jobs of that entity.</p>}
    </section>
  );
}

function Squares({ squares: all, only, open, label, began }: { squares: Square[]; only: Kind | ""; open: (s: Square) => void; label: string; began: number }): VNode {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [over, setOver] = useState<Square | undefined>();
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const box = canvas.current!.parentElement!;
    const watch = new ResizeObserver(() => setWidth(box.clientWidth));
    watch.observe(box);
    const repaint = () => setTheme((n) => n + 1);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", repaint);
    const themed = new MutationObserver(repaint);
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => { watch.disconnect(); themed.disconnect(); dark.removeEventListener("change", repaint); };
  }, []);
  const size = all.length > 2_500 ? 8 : all.length > 400 ? 12 : 18;
  const perRow = Math.max(1, Math.floor(width / size));
  const rows = Math.ceil(all.length / perRow);
  useLayoutEffect(() => {
    const c = canvas.current!;
    if (width === 0) return;
    const scale = devicePixelRatio || 1;
    c.width = perRow * size * scale;
    c.height = rows * size * scale;
    c.style.width = `${perRow * size}px`;
    c.style.height = `${rows * size}px`;
    const draw = c.getContext("2d")!;
    draw.scale(scale, scale);
    const css = getComputedStyle(document.documentElement);
    const colours = Object.fromEntries(kinds.map((k) => [k, css.getPropertyValue(`--map-${k}`).trim()]));
    all.forEach((s, i) => {
      draw.globalAlpha = only && s.kind !== only ? 0.15 : 1;
      draw.fillStyle = colours[s.kind]!;
      draw.fillRect((i % perRow) * size, Math.floor(i / perRow) * size, size - 1, size - 1);
    });
    c.dataset.painted = String(all.length);
    c.dataset.ms ??= String(Math.round(performance.now() - began));
  }, [all, only, width, theme, perRow, rows, size]);
  const at = (e: MouseEvent): Square | undefined => {
    const column = Math.floor(e.offsetX / size);
    return column < perRow ? all[Math.floor(e.offsetY / size) * perRow + column] : undefined;
  };
  return (
    <>
      <div class="squares">
        <canvas ref={canvas} role="img" aria-label={label} onClick={(e) => { const s = at(e); if (s) open(s); }}
          onMouseMove={(e) => setOver(at(e))} onMouseLeave={() => setOver(undefined)} />
      </div>
      <p class="over">{over ? `${over.entity}: ${words[over.kind]} in ${over.step}` : "\u00a0"}</p>
    </>
  );
}

/** Named is the list behind a state, for the keyboard and for names. */
function Named({ id, squares: all, title }: { id: string; squares: Square[]; title: string }): VNode {
  const { ref, list } = useVirtual(all.length, 26);
  return (
    <div class="virtual named" ref={ref} tabIndex={0} role="region" aria-label={`Entities: ${title}`}>
      <ul class="virtual-all" style={{ height: `${list.getTotalSize()}px` }}>
        {list.getVirtualItems().map((item) => (
          <li key={all[item.index]!.entity} style={{ transform: `translateY(${item.start}px)` }}>
            <a href={to(["executions", id, "jobs"], { entity: all[item.index]!.entity })}>{all[item.index]!.entity}</a> {all[item.index]!.step}
          </li>
        ))}
      </ul>
    </div>
  );
}
