// What an operator can do about an execution, where its state and his role allow it. Each
// verb says what it does before it is sent.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { type Execution, post, Refusal, useKey } from "../api";
import { may, type Operation, useCaller } from "../caller";
import { moves } from "../lifecycle.gen";
import { to } from "../route";
import { Dialog, Field, ProblemText } from "../ui";

interface Answers { reason: string; [field: string]: string }
interface Choice { name: string; label: string; options?: string[]; required?: boolean; hint?: string; first?: string }
interface Verb {
  name: string;
  operation: Operation;
  title: string;
  /** says what it does to this execution. */
  says: (x: Execution) => string;
  allowed: (x: Execution) => boolean;
  choices?: (x: Execution) => Choice[];
  send: (x: Execution, a: Answers, key: string) => Promise<{ id: string }>;
}

/** moved says whether the state machine lets an operator cause the event in the present state. */
const moved = (on: string) => (x: Execution): boolean => moves.some((m) => m.from === x.state && m.on === on && m.by.includes("operator"));
const locked = (x: Execution): string => {
  const all = Object.values(x.entities).reduce((n, m) => n + m, 0);
  return x.kept ? `${x.kept} entities` : all > 0 ? `its ${all} entities` : "its entities";
};
const entities = (text: string | undefined): string[] | undefined => {
  const list = (text ?? "").split(/[\s,]+/).filter(Boolean);
  return list.length > 0 ? list : undefined;
};
/** parsed is the value of a text that somebody has typed as JSON. */
const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refusal(0, { code: "invalid", title: "Not JSON", detail: `${text} is not JSON: a text needs quotes` });
  }
};
const some: Choice = { name: "entities", label: "Only these entities", hint: "type/id, separated by spaces; all if empty" };
const changed: Choice = { name: "force", label: "Even if others have changed entities since", options: ["no", "yes"], first: "no" };

const verbs: Verb[] = [
  {
    name: "cancel", operation: "cancelExecution", title: "Cancel", allowed: moved("cancel.requested"),
    says: (x) => (x.startedAt === null
      ? "It has not executed anything: it ends CANCELLED and releases its locks."
      : `No more jobs start, those that are running come to their end. Then what was executed on ${locked(x)} is undone, newest step first, unless you choose never. It keeps its locks until that is over.`),
    choices: () => [{ name: "rollback", label: "Undo what was executed", options: ["auto", "never"], first: "auto" }, { name: "cascade", label: "Also cancel what it waits for", options: ["yes", "no"], first: "yes" }],
    send: (x, a) => post("/workflow-execution/{id}/cancel", { id: x.id }, { reason: a.reason, rollback: a.rollback as "auto", cascade: a.cascade !== "no" }),
  },
  {
    name: "resume", operation: "resumeExecution", title: "Resume", says: (x) => (x.waiting?.kind === "HOLD" ? "It is held by its starter: it begins now." : "It stops waiting for its time and goes on now."),
    allowed: (x) => moved("execution.resumed")(x) && ["TIMER", "HOLD", "CONDITION"].includes(x.waiting?.kind ?? ""),
    send: (x, a) => post("/workflow-execution/{id}/resume", { id: x.id }, { reason: a.reason, step: x.waiting?.step ?? undefined }),
  },
  {
    name: "next", operation: "nextStep", title: "Next step", says: (x) => `It enters ${x.waiting?.step ?? "the step"} in front of which it waits. With all, it does not wait in front of later ones either.`,
    allowed: (x) => x.waiting?.kind === "STEP" && x.state === "WAITING",
    choices: () => [{ name: "all", label: "Steps", options: ["this one", "all"], first: "this one" }],
    send: (x, a) => post("/workflow-execution/{id}/next", { id: x.id }, { reason: a.reason, sequence: x.waiting?.sequence, all: a.all === "all" }),
  },
  {
    name: "rewind", operation: "rewindExecution", title: "Rewind", says: () => "It goes back to an earlier step, under its locks, and executes the steps from there on again. If something that is not pure was executed since, that needs force.",
    allowed: moved("execution.rewound"),
    choices: () => [{ name: "to", label: "To step", required: true }, { name: "force", label: "Force", options: ["no", "yes"], first: "no" }],
    send: (x, a) => post("/workflow-execution/{id}/rewind", { id: x.id }, { to: a.to ?? "", force: a.force === "yes", reason: a.reason }),
  },
  {
    name: "signal", operation: "signalExecution", title: "Signal", allowed: (x) => x.endedAt === null && x.state !== "CANCELLING",
    says: (x) => (x.waiting?.kind === "SIGNAL"
      ? `The step ${x.waiting.step ?? ""} waits for the signal ${x.waiting.signal ?? ""}, and takes it if its data fit.`
      : "A step that waits for a signal of this name takes it. One that comes before the step is kept."),
    choices: (x) => [{ name: "signal", label: "Signal", required: true, first: x.waiting?.kind === "SIGNAL" ? x.waiting.signal ?? "" : "" }, { name: "data", label: "Data", hint: 'JSON, such as {"amount": 12}; none if empty' }],
    send: async (x, a, key) => post("/workflow-execution/{id}/signal/{name}", { id: x.id, name: a.signal ?? "" }, { data: a.data ? parsed(a.data) : undefined, reason: a.reason }, key),
  },
  {
    name: "retry", operation: "retryExecution", title: "Retry", allowed: moved("execution.retried"),
    says: (x) => `The same execution begins another try${x.state === "FAILED_UNSAFE" ? ` with ${locked(x)}, under the locks that it still holds` : ": it takes its locks again"}, from the step that failed unless you name another. Results that are good and were not undone stay.`,
    choices: () => [{ name: "from", label: "From step", hint: "the one that failed" }, { name: "entities", label: "Entities", options: ["", "failed", "all"] }, changed],
    send: (x, a) => post("/workflow-execution/{id}/retry", { id: x.id }, { reason: a.reason, from: a.from || undefined, entities: (a.entities || undefined) as "failed", force: a.force === "yes" || undefined }),
  },
  {
    name: "rollback", operation: "retryExecution", title: "Roll back again", allowed: (x) => moved("execution.retried")(x) && x.failedRollback !== null && x.failedRollback.obstacle === null,
    says: (x) => `Another try undoes what failed to be undone, or was never reached, and executes nothing else. It works on ${locked(x)}. Mend first what the rollback has failed for.`,
    choices: () => [changed],
    send: (x, a) => post("/workflow-execution/{id}/retry", { id: x.id }, { reason: a.reason, rollback: true, force: a.force === "yes" || undefined }),
  },
  {
    name: "acknowledge", operation: "acknowledgeExecution", title: "Acknowledge", allowed: moved("execution.acknowledged"),
    says: (x) => `You say that you have checked ${locked(x)}: something was done to them that was not undone. Their locks are released, and other executions may change them. That cannot be taken back.`,
    choices: () => [some],
    send: (x, a) => post("/workflow-execution/{id}/acknowledge", { id: x.id }, { reason: a.reason, entities: entities(a.entities) }),
  },
  {
    name: "unlock", operation: "unlockExecution", title: "Unlock", allowed: (x) => moved("lock.released")(x) && x.kept !== 0,
    says: (x) => `The locks of ${locked(x)} are released, and nothing else changes: the end still has to be acknowledged. Workers that are still at work for it are fenced off.`,
    choices: () => [some],
    send: (x, a) => post("/workflow-execution/{id}/unlock", { id: x.id }, { reason: a.reason, entities: entities(a.entities) }),
  },
  {
    name: "rerun", operation: "rerunExecution", title: "Run again", allowed: (x) => x.endedAt !== null && x.outcome !== null,
    says: () => "This execution stays as it is. Another one starts, of the same version and with the same parameters, over the entities that you choose.",
    choices: (x) => [{ name: "entities", label: "Entities", options: ["failed", "unsafe", "skipped", "unfinished", "all"], first: x.failedEntities.length > 0 ? "failed" : "all" }],
    send: (x, a, key) => post("/workflow-execution/{id}/rerun", { id: x.id }, { entities: a.entities as "failed", reason: a.reason }, key),
  },
];

/** refused are the verbs for which the service has said that the caller lacks the role. */
const refused = new Set<string>();

export function Verbs({ execution: x, done }: { execution: Execution; done: () => void }): VNode | null {
  const [open, setOpen] = useState<Verb>();
  const caller = useCaller();
  // Who resumes an execution without an answer is an operator.
  const possible = verbs.filter((v) => !refused.has(v.name) && may(caller, v.operation, v.name === "resume" ? "operator" : undefined) && v.allowed(x));
  if (possible.length === 0 && !open) return null;
  return (
    <div class="verbs" role="group" aria-label="What you can do">
      {possible.map((v) => <button type="button" data-verb={v.name} onClick={() => setOpen(v)}>{v.title}</button>)}
      {open ? <Confirm verb={open} execution={x} close={() => setOpen(undefined)} done={done} /> : null}
    </div>
  );
}

function Confirm({ verb, execution: x, close, done }: { verb: Verb; execution: Execution; close: () => void; done: () => void }): VNode {
  const choices = verb.choices?.(x) ?? [];
  const [answers, setAnswers] = useState<Answers>(() => ({ reason: "", ...Object.fromEntries(choices.map((c) => [c.name, c.first ?? ""])) }));
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const key = useKey();
  const set = (field: string) => (value: string) => setAnswers((a) => ({ ...a, [field]: value }));
  const send = async (e: Event) => {
    e.preventDefault();
    // What was typed last may not have left its field yet.
    const typed = Object.fromEntries(new FormData(e.currentTarget as HTMLFormElement)) as Record<string, string>;
    setBusy(true);
    try {
      const all = { ...answers, ...typed };
      const answer = await verb.send(x, all, key(all));
      close();
      done();
      if (answer.id !== x.id) location.hash = to(["executions", answer.id]);
    } catch (refusal) {
      setError(refusal);
      if (refusal instanceof Refusal && refusal.problem.code === "forbidden") refused.add(verb.name);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title={`${verb.title}: ${x.workflow.package}/${x.workflow.name}`} onClose={close}>
      <p>{verb.says(x)}</p>
      <form onSubmit={send}>
        {choices.map((c) => <Field name={c.name} label={c.label} value={answers[c.name] ?? ""} onChange={set(c.name)} options={c.options} none="whichever fits" hint={c.hint} required={c.required} />)}
        <Field name="reason" label="Reason" value={answers.reason} onChange={set("reason")} required hint="for the history and the audit" />
        <ProblemText error={error} />
        <p class="verbs">
          <button type="submit" disabled={busy} class="strong">{verb.title}</button>
          <button type="button" onClick={close}>Do nothing</button>
        </p>
      </form>
    </Dialog>
  );
}
