// Definitions: their versions, what changed between two, and publishing one with the issues at their lines.
import type { VNode } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { all, get, publish, Refusal, type Schemas } from "../api";
import { may, useCaller } from "../caller";
import { diff } from "../diff";
import { useLive } from "../live";
import { go, type Route, to } from "../route";
import { Loaded, ProblemText, Table, time, Value } from "../ui";
import { yaml } from "../yaml";

type Definition = Schemas["Definition"];

/** source is the definition as YAML. The service stores its meaning, not the text that was published. */
const source = (d: Definition): string => yaml(d.definition);

export function Definitions({ route }: { route: Route }): VNode {
  const [, pack, name, version] = route.path;
  if (pack === "publish" && !name) return <Publish from={route.query.get("from")} />;
  if (pack && name && version) return <One pack={pack} name={name} version={version} against={route.query.get("against") ?? ""} />;
  return <List pack={pack} name={name} />;
}

function List({ pack, name }: { pack?: string; name?: string }): VNode {
  const caller = useCaller();
  const live = useLive(`${pack}/${name}`, (signal) => (pack && name
    ? all("/workflow-definition/{package}/{name}", { package: pack, name }, { limit: 1000 }, signal)
    : all("/workflow-definition", undefined, { limit: 1000 }, signal)));
  return (
    <>
      <h1>{pack && name ? `${pack}/${name}` : "Definitions"}</h1>
      {may(caller, "publishDefinition") ? <p><a class="button" href={to(["definitions", "publish"])}>Publish</a></p> : null}
      <Loaded live={live}>{(definitions) => (
        <Table caption="Definitions" rows={definitions} empty="No definition is published yet." columns={[
          { title: "Workflow", cell: (d) => <a href={to(["definitions", d.package, d.name])}>{d.package}/{d.name}</a> },
          { title: "Version", cell: (d) => <a href={to(["definitions", d.package, d.name, d.version])}>{d.version}</a> },
          { title: "Published", cell: (d) => time(d.publishedAt) },
          { title: "By", cell: (d) => d.publishedBy },
          { title: "State", cell: (d) => (d.archived ? "archived" : d.draft ? "draft" : "published") },
          { title: "Executions", cell: (d) => <a href={to(["executions"], { workflow: `${d.package}/${d.name}:${d.version}` })}>executions</a> },
          { title: "Start", cell: (d) => (d.archived || d.draft ? null : <a href={to(["start", d.package, d.name, d.version])}>start</a>) },
        ]} />
      )}</Loaded>
    </>
  );
}

function One({ pack, name, version, against }: { pack: string; name: string; version: string; against: string }): VNode {
  const params = { package: pack, name };
  const caller = useCaller();
  const live = useLive(`${pack}/${name}:${version} ${against}`, async (signal) => {
    const [definition, versions, other] = await Promise.all([
      get("/workflow-definition/{package}/{name}/{version}", { ...params, version }, undefined, signal),
      all("/workflow-definition/{package}/{name}", params, { limit: 1000 }, signal),
      against ? get("/workflow-definition/{package}/{name}/{version}", { ...params, version: against }, undefined, signal) : undefined,
    ]);
    return { definition, versions, other };
  });
  const path = ["definitions", pack, name, version];
  return (
    <>
      <h1>{pack}/{name}:{version}</h1>
      <Loaded live={live}>{({ definition: d, versions, other }) => (
        <>
          <p class="calm">Published on {time(d.publishedAt)} by {d.publishedBy}{d.archived ? "; archived: it allows no new executions" : ""}{d.draft ? "; a draft: only starts that allow one find it" : ""}. Digest <span class="id">{d.digest}</span></p>
          <p class="verbs">
            {d.archived || d.draft ? null : <a class="button" href={to(["start", pack, name, version])}>Start an execution</a>}
            <a class="button" href={to(["executions"], { workflow: `${pack}/${name}:${version}` })}>Its executions</a>
            {may(caller, "publishDefinition") ? <a class="button" href={to(["definitions", "publish"], { from: `${pack}/${name}/${version}` })}>Publish another version</a> : null}
          </p>
          <div class="field">
            <label for="against">Difference to version</label>
            <select id="against" value={against} onChange={(e) => go(path, { against: e.currentTarget.value })}>
              <option value="">none</option>
              {versions.filter((v) => v.version !== version).map((v) => <option value={v.version}>{v.version}</option>)}
            </select>
          </div>
          {other ? <Difference before={other} after={d} /> : <><h2>Source</h2><p class="calm">As YAML, with its own layout and without the comments of the file that was published.</p><Value value={source(d)} label="Source" /></>}
        </>
      )}</Loaded>
    </>
  );
}

function Difference({ before, after }: { before: Definition; after: Definition }): VNode {
  const lines = useMemo(() => diff(source(before), source(after)), [before, after]);
  return (
    <>
      <h2>From {before.version} to {after.version}</h2>
      <pre class="diff" tabIndex={0} role="region" aria-label="Difference">
        {lines.map((l) => (l.sign === "+" ? <ins>+ {l.text}{"\n"}</ins> : l.sign === "-" ? <del>- {l.text}{"\n"}</del> : <span>  {l.text}{"\n"}</span>))}
      </pre>
    </>
  );
}

type Issue = Schemas["Issue"];

function Publish({ from }: { from: string | null }): VNode {
  const [text, setText] = useState("");
  const [error, setError] = useState<unknown>();
  const [answer, setAnswer] = useState<{ definition: Definition; dryRun: boolean }>();
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const begun = useLive(`publish ${from}`, async (signal) => {
    const [pack, name, version] = (from ?? "").split("/");
    if (!pack || !name || !version) return "";
    const first = source(await get("/workflow-definition/{package}/{name}/{version}", { package: pack, name, version }, undefined, signal));
    setText((t) => t || first);
    return first;
  });
  const send = async (dryRun: boolean) => {
    setError(undefined);
    setAnswer(undefined);
    try {
      setAnswer({ definition: await publish(text, dryRun), dryRun });
    } catch (refusal) {
      setError(refusal);
    }
  };
  const issues: Issue[] = error instanceof Refusal ? error.problem.errors ?? [] : answer?.definition.warnings ?? [];
  const lines = text.split("\n");
  const show = (line: number) => {
    const begins = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0);
    area.current?.focus();
    area.current?.setSelectionRange(begins, begins + (lines[line - 1]?.length ?? 0));
  };
  return (
    <>
      <h1>Publish a definition</h1>
      <ProblemText error={begun.error} />
      <label for="source">Definition, as YAML or JSON</label>
      <div class="editor">
        <div class="gutter" ref={gutter} aria-hidden="true">{lines.map((_, n) => <div class={issues.some((i) => i.line === n + 1) ? "issue" : ""}>{n + 1}</div>)}</div>
        <textarea id="source" ref={area} rows={24} spellcheck={false} wrap="off" value={text} onInput={(e) => { setText(e.currentTarget.value); }}
          onScroll={(e) => { if (gutter.current) gutter.current.scrollTop = e.currentTarget.scrollTop; }} />
      </div>
      <p class="verbs">
        <button type="button" onClick={() => send(true)}>Check</button>
        <button type="button" class="strong" onClick={() => send(false)}>Publish</button>
      </p>
      {issues.some((i) => i.line) ? (
        <ul class="issues" aria-label="Issues at their lines">
          {issues.filter((i) => i.line).map((i) => <li><button type="button" onClick={() => show(i.line!)}>line {i.line}</button> <code>{lines[i.line! - 1]?.trim()}</code><br />{i.message}</li>)}
        </ul>
      ) : null}
      <ProblemText error={error} />
      {answer ? (
        <p role="status">
          {answer.dryRun ? "It is valid" : "It is published"}{issues.length > 0 ? `, with ${issues.length} warnings` : ""}: {answer.dryRun
            ? `${answer.definition.package}/${answer.definition.name}:${answer.definition.version}`
            : <a href={to(["definitions", answer.definition.package, answer.definition.name, answer.definition.version])}>{answer.definition.package}/{answer.definition.name}:{answer.definition.version}</a>}
        </p>
      ) : null}
    </>
  );
}
