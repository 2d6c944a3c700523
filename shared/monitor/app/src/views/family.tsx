// The family of an execution as a tree, and the waves of its rollouts.
import type { VNode } from "preact";
import { all, type Execution, get, type Schemas } from "../api";
import { useLive } from "../live";
import { ExecutionLink, Loaded, name, Table, Word } from "../ui";

interface Member { id: string; workflow: string; state: string | null; outcome: string | null; step: string; mode: string; undoes: string | null; children: Member[]; cut: boolean }

/** most is how many executions a tree shows. */
const most = 500;

async function read(x: Execution, signal: AbortSignal): Promise<Member> {
  let top = x;
  for (let n = 0; top.parent && n < 20; n++) top = await get("/workflow-execution/id/{id}", { id: top.parent }, undefined, signal);
  let left = most;
  const below = async (id: string): Promise<{ children: Member[]; cut: boolean }> => {
    const children: Member[] = [];
    for (const c of await all("/workflow-execution/id/{id}/children", { id }, { limit: 1000 }, signal)) {
      if (left-- <= 0) return { children, cut: true };
      children.push({ id: c.id, workflow: name(c.workflow), state: c.state, outcome: c.outcome, step: c.step, mode: c.mode, undoes: c.compensates, ...(c.state ? await below(c.id) : { children: [], cut: false }) });
    }
    return { children, cut: false };
  };
  return { id: top.id, workflow: name(top.workflow), state: top.state, outcome: top.outcome, step: "", mode: "", undoes: null, ...(await below(top.id)) };
}

export function Family({ execution: x }: { execution: Execution }): VNode {
  const live = useLive(x.id, (signal) => read(x, signal), x.version, x.endedAt !== null && x.children.length === 0);
  return (
    <section>
      <h2>Family</h2>
      <Loaded live={live}>{(top) => (top.children.length === 0 ? <p class="calm">It has no parent and has started no other execution.</p> : <ul class="tree"><Branch member={top} present={x.id} /></ul>)}</Loaded>
    </section>
  );
}

function Branch({ member: m, present }: { member: Member; present: string }): VNode {
  return (
    <li>
      {m.step ? <>{m.step}: </> : null}
      {m.id === present ? <strong aria-current="true">{m.workflow} (this one)</strong> : <>{m.workflow} <ExecutionLink id={m.id} /></>} <Word>{m.state ?? "removed"}</Word> <Word>{m.outcome}</Word>
      {m.mode === "fireAndForget" ? " not waited for" : ""}{m.undoes ? <> undoes <ExecutionLink id={m.undoes} /></> : null}
      {m.children.length > 0 ? <ul>{m.children.map((c) => <Branch member={c} present={present} />)}</ul> : null}
      {m.cut ? <p class="calm">There are more: open the execution to see them.</p> : null}
    </li>
  );
}

type StepRun = Schemas["StepRun"];
interface Wave { name?: string; entities?: number }

/** Waves shows each rollout as a table with one row a wave. */
export function Waves({ steps }: { steps: StepRun[] }): VNode | null {
  const rollouts = steps.filter((s) => s.rollout && !s.superseded && Array.isArray((s.value as { waves?: unknown } | null)?.waves));
  if (rollouts.length === 0) return null;
  return (
    <>
      {rollouts.map((r) => {
        const waves = (r.value as { waves: Wave[] }).waves;
        const last = r.rollout!.wave;
        const stopped = r.rollout!.stoppedAt;
        const rows = waves.map((w, n) => {
          const inside = steps.filter((s) => s.rollout?.wave === n + 1 && s !== r && !s.superseded && s.sequence > r.sequence && s.kind !== null);
          const jobs = inside.reduce((sum, s) => ({ total: sum.total + s.jobs.total, completed: sum.completed + s.jobs.completed, failed: sum.failed + s.jobs.failed }), { total: 0, completed: 0, failed: 0 });
          const status = stopped !== null && n + 1 >= stopped ? (n + 1 === stopped ? "FAILED" : "SKIPPED") : n + 1 < last || (n + 1 === last && r.endedAt) ? "COMPLETED" : n + 1 === last ? "RUNNING" : "PENDING";
          return { number: n + 1, name: w.name, entities: w.entities, status, ...jobs };
        });
        return (
          <section>
            <h2>Waves of {r.step}</h2>
            <Table caption={`Waves of ${r.step}`} rows={rows} empty="" columns={[
              { title: "Wave", number: true, cell: (w) => w.number },
              { title: "Name", cell: (w) => w.name },
              { title: "Status", cell: (w) => <Word>{w.status}</Word> },
              { title: "Entities", number: true, cell: (w) => w.entities },
              { title: "Jobs", number: true, cell: (w) => w.total },
              { title: "Completed", number: true, cell: (w) => w.completed },
              { title: "Failed", number: true, cell: (w) => w.failed },
            ]} />
          </section>
        );
      })}
    </>
  );
}
