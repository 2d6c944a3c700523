// The page of somebody who has nothing but a token: what is asked, and a form for the answer. The
// token comes behind the # of the address, which browsers do not send, and goes nowhere but into a
// header of the requests to /answers.
import { render } from "preact";
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { answer, question, Refusal, type Schemas } from "./api";
import { consent, Form, type Schema, start } from "./form";
import { ProblemText, time, Value } from "./ui";

type Question = Schemas["Question"];

/** takeToken is the token of the address, which does not show it any more. */
function takeToken(): string {
  const token = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  return token;
}

/** ended says why a token takes no answer; nothing if it may take one yet. */
function ended(error: unknown): string | undefined {
  if (!(error instanceof Refusal)) return undefined;
  if (error.status === 401) return "This link is not valid. Check that you have opened the whole of it.";
  if (error.status !== 409) return undefined;
  switch (error.problem.errors?.[0]?.code) {
    case "used": return "This link has been used: an answer was given with it, or by whoever sent it to you. It counts once.";
    case "expired": return "This link has expired. Ask whoever sent it to you for another one.";
    case "revoked": return "This link was revoked. Ask whoever sent it to you for another one.";
    default: return "Nothing is asked here any more: an answer was given, its time has passed, or it was cancelled.";
  }
}

function App(): VNode {
  const [token, setToken] = useState(takeToken);
  useEffect(() => {
    const changed = () => {
      if (location.hash) setToken(takeToken());
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return (
    <>
      <header><p class="brand">Lockstep</p></header>
      <main class="answer">
        {token ? <Ask token={token} key={token} /> : <><h1>Answer</h1><p role="status">This page needs a link with a token, and forgets it when it is loaded again. Open the link that you were sent.</p></>}
      </main>
    </>
  );
}

/** Ask shows the question of a token and sends the answer. */
function Ask({ token }: { token: string }): VNode {
  const [asked, setAsked] = useState<Question>();
  const [error, setError] = useState<unknown>();
  const [sent, setSent] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);
  const over = sent ? "Your answer is sent. You can close this page." : ended(error);
  const read = () => {
    setError(undefined);
    question(token).then(setAsked, setError);
  };
  useEffect(read, []);
  useEffect(() => {
    document.title = `${asked?.title ?? asked?.step ?? "Answer"} · Lockstep`;
  }, [asked]);
  useEffect(() => {
    if (over) heading.current?.focus(); // what had the focus is gone
  }, [over]);
  return (
    <>
      <h1 ref={heading} tabIndex={-1}>{asked?.title ?? asked?.step ?? "Answer"}</h1>
      {over ? <div role="status"><p>{over}</p>{error instanceof Refusal ? <p class="calm">The service says: {error.message}.</p> : null}</div>
        : asked ? <Answer asked={asked} error={error} send={(value) => {
            setError(undefined);
            return answer(token, value).then(() => setSent(true), setError);
          }} />
        : error ? <><ProblemText error={error} next="Try again in some seconds." /><p class="verbs"><button type="button" onClick={read}>Try again</button></p></>
        : <p class="calm" role="status">Loading</p>}
    </>
  );
}

function Answer({ asked, error, send }: { asked: Question; error: unknown; send: (value: unknown) => Promise<void> }): VNode {
  const schema = asked.approval ? consent : (asked.schema as Schema | null);
  const [value, setValue] = useState<unknown>(() => start(schema));
  const [valid, setValid] = useState(true);
  const [sending, setSending] = useState(false);
  const until = [asked.until, asked.expiresAt].filter((t) => t !== null).sort()[0];
  return (
    <form onSubmit={(e) => {
      e.preventDefault();
      setSending(true);
      void send(value ?? null).then(() => setSending(false));
    }}>
      <p>You answer by the name {asked.for}, once, until {time(until)}.</p>
      <Value value={asked.show} label="What you are shown" />
      <Form schema={schema} value={value} onChange={(v, ok) => { setValue(v); setValid(ok); }} />
      <ProblemText error={error} next={error instanceof Refusal && error.problem.code === "invalid" ? "Correct what is listed, then send it again." : "Try again in some seconds: the same answer counts once."} />
      <p class="verbs"><button type="submit" class="strong" disabled={!valid || sending}>Answer</button></p>
    </form>
  );
}

render(<App />, document.getElementById("app")!);
