// What executions ask people, with a form made from the schema of each answer.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { get, post, type Schemas, useKey } from "../api";
import { may, useCaller } from "../caller";
import { consent, Form, type Schema, start } from "../form";
import { useLive } from "../live";
import { go, type Route } from "../route";
import { duration, ExecutionLink, Field, Loaded, name, Pages, ProblemText, time, Value } from "../ui";

type Input = Schemas["Input"];

export function Inbox({ route }: { route: Route }): VNode {
  const path = ["inbox"];
  const query = { mine: route.query.get("mine") ?? undefined, page: route.query.get("page") ?? undefined };
  const live = useLive(JSON.stringify(query), (signal) => get("/inputs", undefined, { mine: query.mine === "yes" || undefined, limit: 50, pageToken: query.page }, signal));
  return (
    <>
      <h1>Inbox</h1>
      <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
        <Field label="Only what I may answer" value={query.mine ?? ""} onChange={(v) => go(path, { mine: v })} options={["", "yes"]} none="no" />
      </form>
      <Loaded live={live}>{(page) => (
        <>
          {page.items.length === 0 ? <p class="calm">Nothing waits for an answer.</p> : page.items.map((i) => <Ask key={`${i.execution} ${i.step} ${i.visit}`} input={i} done={live.reload} />)}
          <Pages path={path} query={query} next={page.nextPageToken} />
        </>
      )}</Loaded>
    </>
  );
}

/** Ask shows one question and sends the answer. */
export function Ask({ input: i, done }: { input: Input; done: () => void }): VNode {
  const schema = i.approval ? consent : (i.schema as Schema | null);
  const [value, setValue] = useState<unknown>(() => start(schema));
  const [valid, setValid] = useState(true);
  const [error, setError] = useState<unknown>();
  const [sent, setSent] = useState(false);
  const key = useKey();
  const caller = useCaller();
  const who = [...i.who.actors, ...i.who.roles.map((r) => `role ${r}`)].join(", ") || "everybody";
  const send = async (e: Event) => {
    e.preventDefault();
    setError(undefined);
    try {
      await post("/workflow-execution/{id}/resume", { id: i.execution }, { input: value as never, step: i.step, visit: i.visit }, key(value));
      setSent(true);
      done();
    } catch (refusal) {
      setError(refusal);
    }
  };
  return (
    <article class="card" aria-label={i.title ?? i.step}>
      <h2>{i.title ?? i.step}</h2>
      <p>Asked by <ExecutionLink id={i.execution} /> ({name(i.workflow)}) in step {i.step} for {duration(i.since)}, until {time(i.until)}. {who} may answer{i.who.notStarter ? ", except who started it" : ""}; {i.answers.length} of {i.need} have.</p>
      {i.answers.length > 0 ? <ul>{i.answers.map((a) => <li>{a.by} on {time(a.at)}{a.via ? ` by ${a.via}` : ""}</li>)}</ul> : null}
      <Value value={i.show} label="What it shows" />
      {sent ? <p role="status">Your answer is sent.</p> : !may(caller, "resumeExecution", "approver") ? caller && <p class="calm">Your roles do not let you answer.</p> : (
        <form onSubmit={send}>
          <Form schema={schema} value={value} onChange={(v, ok) => { setValue(v); setValid(ok); }} />
          <ProblemText error={error} />
          <p class="verbs"><button type="submit" class="strong" disabled={!valid}>Answer</button></p>
        </form>
      )}
    </article>
  );
}
